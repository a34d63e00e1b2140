// Asking and answering on the page.
import assert from 'node:assert/strict';
import test from 'node:test';
import { answers, answerWith, ask, by, closePage, ended, openPage, questions, refusal, send, startServer, streamOf, textOf } from './support.mjs';

const server = await startServer();
const endless = await startServer('-c', '32768', '--ignore-eos', '-n', '30000');
const contextExceeded = refusal(400, 'context_length_exceeded', 'The prompt has 530 tokens, the context 512');

test('a question is answered, and the figures are told', async () => {
  const page = await openPage(server);
  assert.equal(await by(page, 'message').count(), 0);
  assert.equal(await by(page, 'send').isDisabled(), true);
  await send(page, '   ');
  assert.equal(await by(page, 'message').count(), 0);
  await by(page, 'prompt').fill('');
  await ask(page, 'What is the capital of Norway?');
  assert.match(await textOf(answers(page)), /Oslo/);
  assert.match(await by(page, 'stats').innerText(), /\d+ tokens · \d+ of \d+ in context/);
  assert.ok(await by(page, 'stats').evaluate((e) => e.scrollWidth <= e.clientWidth), 'the seed is there to its last digit');
  assert.equal(await by(page, 'prompt').inputValue(), '');
  assert.equal(await by(page, 'prompt').evaluate((box) => box === document.activeElement), true);
  assert.match(await page.title(), /Norway/);
  await closePage(page);
});

test('an example asks', async () => {
  const page = await openPage(server);
  await by(page, 'example').first().click();
  await ended(page);
  assert.equal(await questions(page).count(), 1);
  await closePage(page);
});

test('the Enter that ends a composition sends nothing', async () => {
  const page = await openPage(server);
  await by(page, 'prompt').fill('今日');
  // Safari sends this key after the composition has ended.
  const press = (keyCode) => by(page, 'prompt').evaluate((box, code) => box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', keyCode: code, bubbles: true })), keyCode);
  await press(229);
  assert.equal(await questions(page).count(), 0);
  assert.equal(await by(page, 'prompt').inputValue(), '今日');
  await press(13);
  assert.equal(await questions(page).count(), 1);
  await ended(page);
  await closePage(page);
});

test('an answer grows, and stops when it should', async () => {
  const page = await openPage(endless);
  for (const stop of [() => by(page, 'stop').click(), () => page.keyboard.press('Escape')]) {
    const before = await answers(page).count();
    await send(page, 'Tell me a story.');
    const grown = (length) => page.waitForFunction(([count, wanted]) => {
      const all = [...document.querySelectorAll('[data-role="assistant"]')];
      return all.length > count && all.at(-1).dataset.state === 'streaming' && all.at(-1).innerText.length > wanted;
    }, [before, length]);
    await grown(50);
    const length = (await textOf(answers(page).last())).length;
    await grown(length + 20);
    assert.equal(await by(page, 'send').count(), 0);
    await stop();
    await ended(page, 'stopped');
    assert.equal(await by(page, 'stop').count(), 0);
    const kept = await textOf(answers(page).last());
    assert.ok(kept.length > length);
    await page.waitForTimeout(300);
    assert.equal(await textOf(answers(page).last()), kept);
  }
  await closePage(page);
});

test('an answer goes on while another conversation is shown', async () => {
  const page = await openPage(endless);
  await send(page, 'First story');
  await by(page, 'stop').waitFor();
  await by(page, 'new-chat').click();
  await by(page, 'stop').waitFor({ state: 'detached' });
  await page.getByRole('img', { name: 'an answer is being written' }).waitFor();
  await by(page, 'conversation').click();
  await page.waitForFunction(() => document.querySelector('[data-role="assistant"][data-state="streaming"]')?.innerText.length > 100);
  await page.keyboard.press('Escape');
  await ended(page, 'stopped');
  await closePage(page);
});

test('what is sent', async () => {
  const page = await openPage(server);
  const bodies = await answerWith(page, () => streamOf(['One.']));
  await ask(page, 'First');
  assert.deepEqual(bodies[0].messages, [{ role: 'user', content: 'First' }]);
  assert.deepEqual([bodies[0].stream, bodies[0].stream_options, bodies[0].temperature], [true, { include_usage: true }, undefined]);
  await by(page, 'settings-open').click();
  for (const [id, value] of Object.entries({ system: 'Be kind.', temperature: '0.3', 'top-p': '0.5', 'max-tokens': '77', seed: '42', 'api-key': 'sk-1' })) await by(page, `setting-${id}`).fill(value);
  await by(page, 'settings-close').click();
  const request = page.waitForRequest('**/v1/chat/completions');
  await ask(page, 'Second');
  const { model, messages, stream, stream_options: _, ...numbers } = bodies[1];
  assert.deepEqual(numbers, { return_progress: true, temperature: 0.3, top_p: 0.5, max_tokens: 77, seed: 42 });
  assert.deepEqual(messages, [{ role: 'system', content: 'Be kind.' }, { role: 'user', content: 'First' }, { role: 'assistant', content: 'One.' }, { role: 'user', content: 'Second' }]);
  assert.equal((await request).headers().authorization, 'Bearer sk-1');
  assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage }).includes('sk-1')), false);
  await page.reload();
  await by(page, 'settings-open').click();
  assert.equal(await by(page, 'setting-temperature').inputValue(), '0.3');
  await by(page, 'setting-temperature').fill('3');
  assert.equal(await by(page, 'setting-temperature').getAttribute('aria-invalid'), 'true');
  await page.keyboard.press('Escape');
  await ask(page, 'Third');
  assert.equal(bodies[2].temperature, undefined);
  await closePage(page);
});

test('a question of several lines', async () => {
  const page = await openPage(server);
  await answerWith(page, () => streamOf(['Ok.']));
  await by(page, 'prompt').pressSequentially('one');
  await by(page, 'prompt').press('Shift+Enter');
  await by(page, 'prompt').pressSequentially('**two**');
  await by(page, 'prompt').press('Enter');
  await ended(page);
  assert.equal(await textOf(questions(page)), 'one\n**two**');
  await closePage(page);
});

test('an answer is given anew, a question changed', async () => {
  const page = await openPage(server);
  const bodies = await answerWith(page, (_, n) => streamOf([`Answer ${n}.`]));
  await ask(page, 'First');
  await ask(page, 'Second');
  assert.equal(await by(page, 'regenerate').count(), 1);
  await by(page, 'regenerate').click();
  await page.getByText('Answer 3.').waitFor();
  await ended(page);
  assert.equal(await by(page, 'message').count(), 4);
  assert.equal(bodies[2].messages.at(-1).content, 'Second');
  await questions(page).first().hover();
  await by(page, 'edit-message').first().click();
  await by(page, 'edit-text').fill('Changed');
  await by(page, 'edit-text').press('Escape');
  assert.equal(await textOf(questions(page).first()), 'First');
  await by(page, 'edit-message').first().click();
  await by(page, 'edit-text').fill('Changed');
  await by(page, 'edit-send').click();
  await page.getByText('Answer 4.').waitFor();
  await ended(page);
  assert.deepEqual(bodies[3].messages, [{ role: 'user', content: 'Changed' }]);
  assert.equal(await by(page, 'message').count(), 2);
  // The older versions are there, also after a reload.
  const shown = () => by(page, 'message').getByTestId('message-text').allInnerTexts();
  await page.reload();
  assert.deepEqual(await shown(), ['Changed', 'Answer 4.']);
  await by(page, 'version-older').click();
  assert.deepEqual(await shown(), ['First', 'Answer 1.', 'Second', 'Answer 3.']);
  await by(page, 'version-older').last().click();
  assert.deepEqual(await shown(), ['First', 'Answer 1.', 'Second', 'Answer 2.']);
  await by(page, 'version-newer').first().click();
  assert.deepEqual(await shown(), ['Changed', 'Answer 4.']);
  assert.equal(await by(page, 'version-newer').isDisabled(), true);
  await closePage(page);
});

test('an answer is changed, and continued from there', async () => {
  const page = await openPage(server);
  const bodies = await answerWith(page, (_, n) => streamOf([n === 1 ? 'One, two' : ', four']));
  await ask(page, 'Count');
  await answers(page).hover();
  await answers(page).getByTestId('edit-answer').click();
  await by(page, 'edit-text').fill('One, three');
  await by(page, 'edit-send').click();
  await by(page, 'continue').click();
  await page.getByText('One, three, four').waitFor();
  await ended(page);
  assert.deepEqual(bodies[1].messages, [{ role: 'user', content: 'Count' }, { role: 'assistant', content: 'One, three' }]);
  assert.equal(bodies[1].continue_final_message, true);
  assert.equal(bodies[0].continue_final_message, undefined);
  await by(page, 'version-older').click();
  assert.equal(await textOf(answers(page)), 'One, two');
  await closePage(page);
});

test('text files go with a question; others are refused', async () => {
  const page = await openPage(server);
  const bodies = await answerWith(page, () => streamOf(['Read.']));
  const file = (name, text) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
  await by(page, 'attach-file').setInputFiles([file('a.md', 'Some ```code``` here\n'), file('b.bin', '\0\u0001')]);
  await by(page, 'toast').filter({ hasText: 'b.bin is not a text file' }).waitFor();
  assert.equal(await by(page, 'file').count(), 1);
  await by(page, 'prompt').evaluate((box) => {
    const data = new DataTransfer();
    data.items.add(new File(['x = 1'], 'c.py', { type: 'text/x-python' }));
    box.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await by(page, 'file').nth(1).waitFor();
  await ask(page, 'What is it?');
  assert.equal(bodies[0].messages[0].content, 'a.md:\n\n````\nSome ```code``` here\n````\n\nc.py:\n\n```\nx = 1\n```\n\nWhat is it?');
  await page.reload();
  assert.equal(await questions(page).getByTestId('file').count(), 2);
  await closePage(page);
});

test('what has been read of a prompt is told while nothing is written', async () => {
  const page = await openPage(server);
  await page.route('**/v1/chat/completions', () => {});
  await page.evaluate(() => {
    window.fetch = async () => new Response(new ReadableStream({ start(stream) { window.tell = (data) => stream.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(data)}\n\n`)); } }));
  });
  await send(page, 'Hi');
  await page.waitForFunction(() => window.tell);
  await page.evaluate(() => window.tell({ choices: [], prompt_progress: { total: 5000, cache: 0, processed: 1250, time_ms: 3 } }));
  await page.getByText('Reading: 1,250 of 5,000 tokens').waitFor();
  await page.evaluate(() => window.tell({ choices: [{ index: 0, delta: { content: 'Yes' }, finish_reason: null }] }));
  await page.getByText('Yes', { exact: true }).waitFor();
  assert.equal(await by(page, 'progress').count(), 0);
  await closePage(page);
});

test('settings of a conversation, thinking, a schema, the model', async () => {
  const page = await openPage(server);
  await page.route('**/v1/models', (route) => route.fulfill({ json: { data: ['first', 'two', 'one'].map((id) => ({ id, meta: {} })) } }));
  await page.route('**/props*', (route) => route.fulfill({ json: { model_alias: 'one', default_generation_settings: { params: { temperature: 0.8, top_k: 40, samplers: ['top_k', 'min_p'] } } } }));
  await page.reload();
  const bodies = await answerWith(page, () => streamOf(['Yes.']));
  await by(page, 'model-choice').selectOption('two');
  await page.keyboard.press('Control+,');
  await by(page, 'setting-conversation-system').fill('Be brief.');
  await by(page, 'setting-thinking').selectOption('off');
  await by(page, 'setting-schema').fill('{"type": "object"');
  assert.equal(await by(page, 'setting-schema').getAttribute('aria-invalid'), 'true');
  await by(page, 'setting-schema').fill('{"type": "object"}');
  await by(page, 'more-sampling').locator('summary').click();
  assert.equal(await by(page, 'sampling-temperature').count(), 0);
  await by(page, 'sampling-top_k').fill('7');
  await by(page, 'sampling-samplers').fill('min_p, top_k');
  await page.keyboard.press('Escape');
  await ask(page, 'Hi');
  const { model, messages, enable_thinking: thinking, response_format: format, top_k: topK, samplers } = bodies[0];
  assert.deepEqual([model, messages[0].content, thinking, format.json_schema.schema, topK, samplers], ['two', 'Be brief.', false, { type: 'object' }, 7, ['min_p', 'top_k']]);
  // Another conversation has neither its system message nor its model.
  await page.keyboard.press('Control+Shift+O');
  await ask(page, 'Hi');
  assert.deepEqual([bodies[1].model, bodies[1].messages.length, bodies[1].top_k], ['one', 1, 7]);
  await closePage(page);
});

test('conversations are searched, and saved as Markdown', async () => {
  const page = await openPage(server);
  await answerWith(page, (_, n) => streamOf([n === 1 ? 'About **apples**' : 'About pears']));
  await ask(page, 'First');
  await page.keyboard.press('Control+Shift+O');
  await ask(page, 'Second');
  assert.equal(await page.getByText('Today').count(), 1);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('appLES fir');
  assert.deepEqual(await by(page, 'conversation').allInnerTexts(), ['First']);
  await by(page, 'conversation').click();
  const saved = page.waitForEvent('download');
  await by(page, 'export-markdown').click();
  const text = await (await import('node:fs/promises')).readFile(await (await saved).path(), 'utf8');
  assert.equal(text, '# First\n\n## Question\n\nFirst\n\n## Answer\n\nAbout **apples**\n');
  await closePage(page);
});

test('the page can be installed', async () => {
  const manifest = await (await fetch(`${server.url}/manifest.webmanifest`)).json();
  assert.equal(manifest.display, 'standalone');
  const icon = await fetch(`${server.url}/${manifest.icons[0].src}`);
  assert.equal(icon.headers.get('content-type'), 'image/svg+xml');
  assert.match(await icon.text(), /^<svg /);
});

test('errors are said in words, and can be tried again', async () => {
  const page = await openPage(server);
  const broken = streamOf(['Half'], [{ error: { message: 'broken off here', type: 'server_error', param: null, code: 'internal_error' } }]);
  const cut = streamOf(['Cut'], []);
  const replies = [refusal(503, 'queue_full', 'The queue is full'), broken, cut, refusal(401, 'invalid_api_key', 'No key'), { status: 502, body: '<h1>Bad gateway</h1>' }, streamOf(['Fine.'])];
  const bodies = await answerWith(page, (_, n) => replies[n - 1]);
  await ask(page, 'Hi', 'error');
  assert.match(await by(page, 'error').innerText(), /Too many people[^]*The queue is full/);
  assert.equal(await by(page, 'error').getAttribute('role'), 'alert');
  const again = async (words) => {
    await by(page, 'retry').click();
    await page.getByTestId('error').filter({ hasText: words }).waitFor();
  };
  await again('broken off here');
  assert.match(await textOf(answers(page)), /Half/);
  await again('connection broke off');
  await again('API key');
  await page.getByRole('button', { name: 'Open the settings' }).click();
  assert.equal(await by(page, 'setting-api-key').evaluate((box) => box === document.activeElement), true);
  await page.keyboard.press('Escape');
  await again('502');
  await by(page, 'retry').click();
  await page.getByText('Fine.').waitFor();
  await ended(page);
  assert.equal(await by(page, 'error').count(), 0);
  assert.ok(bodies.every((body) => body.messages.length === 1));
  await closePage(page);
});

test('without a network', async () => {
  const page = await openPage(server);
  await page.context().setOffline(true);
  await ask(page, 'What is the capital of Norway?', 'error');
  assert.match(await by(page, 'error').innerText(), /cannot be reached/);
  await page.context().setOffline(false);
  await by(page, 'retry').click();
  await ended(page);
  assert.match(await textOf(answers(page)), /Oslo/);
  await closePage(page);
});

test('a conversation that is too long goes on without its beginning', async () => {
  const page = await openPage(server);
  const bodies = await answerWith(page, (body) => (body.messages.length > 5 ? contextExceeded : streamOf([`${body.messages.length} were sent.`])));
  for (const text of ['a', 'b', 'c']) await ask(page, text);
  await ask(page, 'd', 'error');
  await by(page, 'shorten').click();
  await page.getByText('3 were sent.').last().waitFor();
  await ended(page);
  assert.deepEqual(bodies.at(-1).messages.map((message) => message.content), ['c', '5 were sent.', 'd']);
  assert.equal(await page.getByText('no longer sent').count(), 1);
  await page.reload();
  await ask(page, 'e');
  assert.equal(bodies.at(-1).messages[0].content, 'c');
  await closePage(page);
});

test('thinking is folded, calls of tools are shown', async () => {
  const page = await openPage(server);
  const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'light', arguments: '' } };
  await answerWith(page, () => streamOf([{ reasoning_content: 'Let me' }, { reasoning_content: ' think.' }, 'Done.', { tool_calls: [call] }, { tool_calls: [{ index: 0, function: { arguments: '{"on":' } }] }, { tool_calls: [{ index: 0, function: { arguments: 'true}' } }] }]));
  await ask(page, 'Light');
  assert.equal(await textOf(answers(page)), 'Done.');
  assert.equal(await by(page, 'reasoning').isVisible(), false);
  await page.getByText('Thoughts').click();
  assert.equal(await by(page, 'reasoning').innerText(), 'Let me think.');
  assert.match(await by(page, 'tool-call').innerText(), /light[^]*\{"on":true\}/);
  await closePage(page);
});
