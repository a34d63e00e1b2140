// Conversations in the browser's storage.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { answers, answerWith, ask, by, closePage, ended, openPage, send, startServer, stored, streamOf, textOf } from './support.mjs';

const server = await startServer();
const aside = (page) => page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith('cria.chat.v1.damaged')).length);

async function talkingPage(options) {
  const page = await openPage(server, options);
  await answerWith(page, (body) => streamOf([`You said ${body.messages.at(-1).content}.`]));
  return page;
}
async function store(page, value) {
  await page.evaluate((text) => localStorage.setItem('cria.chat.v1', text), typeof value === 'string' ? value : JSON.stringify(value));
  await page.reload();
}

test('a conversation survives, has an address and goes on', async () => {
  const page = await talkingPage();
  await ask(page, 'Apples');
  const address = page.url();
  await page.reload();
  assert.equal(await by(page, 'message').count(), 2);
  await by(page, 'new-chat').click();
  assert.equal(await by(page, 'message').count(), 0);
  await ask(page, 'Pears');
  assert.notEqual(page.url(), address);
  assert.deepEqual(await by(page, 'conversation').allInnerTexts(), ['Pears', 'Apples']);
  await page.goBack();
  await by(page, 'conversation').nth(1).click();
  await page.getByText('You said Apples.').waitFor();
  assert.equal(page.url(), address);
  await ask(page, 'More');
  assert.deepEqual(await by(page, 'conversation').allInnerTexts(), ['Apples', 'Pears']);
  assert.equal((await stored(page)).conversations.length, 2);
  await closePage(page);
});

test('renamed, deleted, and back again', async () => {
  const page = await talkingPage();
  await ask(page, 'Apples');
  await by(page, 'conversation').hover();
  await by(page, 'rename-conversation').click();
  await by(page, 'rename-input').fill('Fruit');
  await by(page, 'rename-input').press('Enter');
  assert.deepEqual(await by(page, 'conversation').allInnerTexts(), ['Fruit']);
  assert.equal(await page.evaluate(() => document.activeElement.innerText), 'Fruit');
  await by(page, 'conversation').hover();
  await by(page, 'delete-conversation').click();
  assert.equal(await by(page, 'conversation').count(), 0);
  assert.equal(await by(page, 'message').count(), 0);
  assert.deepEqual((await stored(page)).conversations, []);
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('You said Apples.').waitFor();
  assert.deepEqual((await stored(page)).conversations.map((one) => one.title), ['Fruit']);
  await closePage(page);
});

test('the end of an answer takes neither a name that is being written nor the focus', async () => {
  const page = await openPage(server);
  const doors = [null, null].map(() => { let open; return { opened: new Promise((done) => { open = done; }), open: () => open() }; });
  await answerWith(page, async (_, n) => {
    await doors[n - 3]?.opened;
    return streamOf(['Yes.']);
  });
  const waiting = async (text) => {
    await send(page, text);
    await by(page, 'stop').waitFor();
  };
  await ask(page, 'Apples');
  await by(page, 'new-chat').click();
  await ask(page, 'Pears');
  await waiting('More');
  await by(page, 'conversation').last().hover();
  await by(page, 'rename-conversation').last().click();
  await by(page, 'rename-input').fill('Fru');
  doors[0].open();
  await ended(page);
  await page.keyboard.type('it');
  await page.keyboard.press('Enter');
  assert.deepEqual(await by(page, 'conversation').allInnerTexts(), ['Pears', 'Fruit']);
  assert.equal(await page.locator('#title').innerText(), 'Pears');
  assert.equal(await page.getByRole('img', { name: 'an answer is being written' }).count(), 0);
  await page.mouse.move(700, 300);
  await waiting('More still');
  await by(page, 'conversation').last().focus();
  await by(page, 'delete-conversation').last().focus();
  doors[1].open();
  await ended(page);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Delete “Fruit”');
  await closePage(page);
});

test('a name for a conversation that another tab has deleted does not bring it back', async () => {
  const a = await talkingPage();
  await ask(a, 'Apples');
  const b = await talkingPage({ context: a.context() });
  await by(a, 'conversation').hover();
  await by(a, 'rename-conversation').click();
  await by(b, 'conversation').hover();
  await by(b, 'delete-conversation').click();
  await a.waitForFunction(() => document.querySelectorAll('[data-testid="message"]').length === 0);
  await by(a, 'rename-input').press('Enter');
  await by(a, 'conversation').waitFor({ state: 'detached' });
  assert.deepEqual((await stored(a)).conversations, []);
  await b.close();
  await closePage(a);
});

test('a damaged store is set aside, its whole conversations are kept', async () => {
  const page = await talkingPage();
  for (const damaged of ['{broken', 'null', '[]', '{"version":99}', '"x"', '[{"id":1,"messages":5}]', '{"version":1,"conversations":{}}']) {
    await store(page, damaged);
    await page.getByTestId('toast').filter({ hasText: 'set aside' }).waitFor();
    assert.equal(await page.evaluate(() => localStorage.getItem('cria.chat.v1')), null);
  }
  assert.equal(await aside(page), 3);
  const good = { id: 'good', title: 'Good', created: 1, updated: 1, from: 0, messages: [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b', state: 'streaming', evil: '<b>' }] };
  await store(page, { version: 1, conversations: [good, { id: 'x', messages: [{ role: 'system', content: 'no' }] }, 5] });
  assert.deepEqual(await by(page, 'conversation').allInnerTexts(), ['Good']);
  assert.deepEqual((await stored(page)).conversations.map((one) => one.title), ['Good']);
  await page.reload();
  assert.deepEqual(await by(page, 'conversation').allInnerTexts(), ['Good']);
  assert.equal(await aside(page), 3);
  // Browsers grant 5 million characters. The intact store is kept if the damaged one does not fit,
  // too.
  const large = { ...good, title: 'Large', messages: [{ role: 'user', content: 'x'.repeat(2 << 20) }] };
  await store(page, { version: 1, conversations: [large, { id: 'x', messages: 'y'.repeat(2 << 20) }] });
  await page.getByTestId('toast').filter({ hasText: 'no room' }).waitFor();
  assert.deepEqual((await stored(page)).conversations.map((one) => one.title), ['Large']);
  await store(page, { version: 1, conversations: [good] });
  await by(page, 'conversation').click();
  assert.equal(await answers(page).getAttribute('data-state'), 'stopped');
  await ask(page, 'Apples');
  assert.equal((await stored(page)).conversations[0].messages.length, 4);
  await closePage(page);
});

test('exported and imported', async () => {
  const page = await talkingPage();
  await ask(page, 'Apples');
  await by(page, 'settings-open').click();
  const [file] = await Promise.all([page.waitForEvent('download'), by(page, 'export').click()]);
  const text = await readFile(await file.path(), 'utf8');
  assert.equal(JSON.parse(text).conversations[0].messages[1].content, 'You said Apples.');
  const give = (target, contents) => by(target, 'import-file').setInputFiles({ name: 'c.json', mimeType: 'application/json', buffer: Buffer.from(contents) });
  await give(page, text);
  await page.getByText('0 conversations are new').waitFor();
  await give(page, '{"no": 1}');
  await page.getByText('holds no conversations').waitFor();
  const other = await talkingPage();
  await give(other, text);
  await other.getByText('1 conversation is new').waitFor();
  await by(other, 'conversation').click();
  assert.equal(await textOf(answers(other)), 'You said Apples.');
  await closePage(page);
  await closePage(other);
});

test('two tabs', async () => {
  const a = await talkingPage();
  const b = await talkingPage({ context: a.context() });
  await ask(a, 'Apples');
  await by(a, 'message').first().hover();
  await by(a, 'edit-message').click();
  await ask(b, 'Pears');
  await by(a, 'conversation').nth(1).waitFor();
  assert.equal(await by(a, 'edit-text').count(), 1);
  assert.deepEqual((await stored(a)).conversations.map((one) => one.title).sort(), ['Apples', 'Pears']);
  await by(b, 'conversation').first().hover();
  await by(b, 'rename-conversation').first().click();
  await by(b, 'rename-input').fill('Fruit');
  await by(b, 'rename-input').press('Enter');
  await by(a, 'conversation').filter({ hasText: 'Fruit' }).waitFor();
  assert.equal(await by(a, 'edit-text').count(), 1);
  await by(a, 'edit-send').click();
  await by(a, 'message').nth(1).filter({ hasText: 'You said' }).waitFor();
  assert.deepEqual((await stored(a)).conversations.map((one) => one.title).sort(), ['Apples', 'Fruit']);
  await b.close();
  await closePage(a);
});

test('a full storage is said, and the talk goes on', async () => {
  const page = await talkingPage();
  await page.evaluate(() => { Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }; });
  await ask(page, 'Apples');
  await page.getByTestId('toast').filter({ hasText: 'storage is full' }).waitFor();
  await ask(page, 'Pears');
  assert.equal(await answers(page).count(), 2);
  // Also where something else is said of what was done.
  const file = { version: 1, conversations: [{ id: 'one', title: 'One', created: 1, updated: 1, from: 0, messages: [] }] };
  await by(page, 'import-file').setInputFiles({ name: 'c.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(file)) });
  await page.getByTestId('toast').filter({ hasText: /1 conversation is new.*storage is full/ }).waitFor();
  await by(page, 'conversation').first().hover();
  await by(page, 'delete-conversation').first().click();
  await page.getByTestId('toast').filter({ hasText: /is deleted.*storage is full/ }).getByRole('button', { name: 'Undo' }).waitFor();
  await closePage(page);
});

test('a tab that is closed keeps what had come', async () => {
  const slow = await startServer('-c', '8192', '--ignore-eos', '-n', '6000');
  const page = await openPage(slow);
  await by(page, 'prompt').fill('Tell me a story.');
  await by(page, 'prompt').press('Enter');
  await page.waitForFunction(() => document.querySelector('[data-role="assistant"]')?.innerText.length > 60);
  await page.reload();
  assert.equal(await answers(page).getAttribute('data-state'), 'stopped');
  assert.ok((await textOf(answers(page))).length > 50);
  await closePage(page);
});
