// Accessibility and safety: untrusted answers, keyboard, names, contrast, small screens, reduced
// motion.
import assert from 'node:assert/strict';
import test from 'node:test';
import { answers, answerWith, ask, by, closePage, ended, openPage, startServer, streamOf } from './support.mjs';

const server = await startServer();
const wide = '# Title\n\nA very long word: ' + 'x'.repeat(300) + '\n\n```sh\n' + 'echo '.repeat(80) + '\n```\n\n| ' + 'column | '.repeat(12) + '\n|' + '---|'.repeat(12) + '\n| ' + 'value | '.repeat(12) + '\n\nhttps://example.org/' + 'y'.repeat(300);

test('nothing of an answer is HTML', async () => {
  const page = await openPage(server);
  const evil = ['# T <b>x</b>\n\n<script>window.hacked=1</script><img src=x onerror="window.hacked=2">\n\n', '[a](javascript:window.hacked=3) [b](https://example.org/) <a href="javascript:window.hacked=4">c</a>\n\n',
    '```html\n<script>window.hacked=5</script>\n```\n\n| <iframe src="evil.example"></iframe> |\n|---|\n| <style>*{display:none}</style> |\n\n- <svg onload="window.hacked=6">\n'];
  await answerWith(page, () => streamOf([{ reasoning_content: '<img src=x onerror="window.hacked=7">' }, ...evil, { tool_calls: [{ index: 0, function: { name: '<img src=x onerror="window.hacked=8">', arguments: '<script>' } }] }]));
  await ask(page, '<img src=x onerror="window.hacked=9">');
  const made = await by(page, 'messages').evaluate((box) => [...new Set([...box.querySelectorAll('*')].map((one) => one.localName))].sort());
  assert.deepEqual(made.filter((name) => ['script', 'img', 'iframe', 'style', 'object', 'embed', 'b', 'form', 'link', 'base'].includes(name)), []);
  assert.deepEqual(await by(page, 'messages').evaluate((box) => [...box.querySelectorAll('a')].map((link) => [link.href, link.rel, link.target])), [['https://example.org/', 'noopener noreferrer nofollow', '_blank']]);
  assert.match(await answers(page).innerText(), /<script>window.hacked=1<\/script>/);
  await page.waitForTimeout(200);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await closePage(page);
});

test('code is copied as it is', async () => {
  const page = await openPage(server);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await answerWith(page, () => streamOf(['```py', 'thon\n\tprint("<b>")\n\n```\n\nAnd **so** on.']));
  await ask(page, 'Code');
  await by(page, 'copy-code').click();
  await page.waitForFunction(async () => (await navigator.clipboard.readText()) === '\tprint("<b>")\n');
  await answers(page).hover();
  await answers(page).getByTestId('copy-message').click();
  await page.waitForFunction(async () => (await navigator.clipboard.readText()).endsWith('And **so** on.'));
  await closePage(page);
});

test('the policy lets this script and this style run, and nothing else', async () => {
  const answer = await fetch(`${server.url}/`);
  const policy = answer.headers.get('content-security-policy'), page = await answer.text();
  for (const part of ["default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]) assert.ok(policy.includes(part), part);
  assert.doesNotMatch(policy, /unsafe|\*/);
  assert.equal(answer.headers.get('referrer-policy'), 'no-referrer');
  assert.ok(page.length < 200 * 1024);
  assert.doesNotMatch(page.replace(/<(script|style)>[^]*?<\/\1>/g, ''), /\son\w+=|\sstyle=|<script|<style/);
  assert.doesNotMatch(page, /(?:src|href)="(?:https?:)?\/\//);
  const tab = await openPage(server);
  const violated = await tab.evaluate(async () => {
    const seen = [];
    document.addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
    const script = document.createElement('script');
    script.textContent = 'window.foreign = 1';
    document.head.append(script);
    document.body.setAttribute('style', 'color: red');
    new Image().src = 'https://example.org/x.png';
    await fetch('https://example.org/').catch(() => {});
    await new Promise((done) => setTimeout(done, 100));
    return seen.sort();
  });
  assert.deepEqual(violated, ['connect-src', 'img-src', 'script-src-elem', 'style-src-attr']);
  assert.equal(await tab.evaluate(() => window.foreign), undefined);
  await tab.context().close();
});

test('everything is reached by keyboard, and the focus is seen', async () => {
  const page = await openPage(server);
  await page.keyboard.type('What is the capital of Norway?');
  await page.keyboard.press('Enter');
  await ended(page);
  const seen = new Map();
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press('Tab');
    const [id, ring] = await page.evaluate(() => {
      const at = document.activeElement, style = getComputedStyle(at);
      return [at.dataset.testid ?? at.id, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2];
    });
    if (id) seen.set(id, (seen.get(id) ?? true) && ring);
  }
  for (const id of ['new-chat', 'conversation', 'rename-conversation', 'delete-conversation', 'settings-open', 'theme-toggle', 'copy-message', 'edit-message', 'regenerate', 'scroller']) assert.equal(seen.get(id), true, id);
  // All of it without a mouse: settings, back, a new chat.
  await by(page, 'settings-open').focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.closest('dialog') !== null), true);
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'settings-open');
  await by(page, 'new-chat').focus();
  await page.keyboard.press('Enter');
  assert.equal(await by(page, 'message').count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
  await closePage(page);
});

test('everything has a name', async () => {
  const page = await openPage(server);
  await answerWith(page, () => streamOf([wide]));
  await ask(page, 'Hello');
  await by(page, 'settings-open').click();
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button, a[href], input, textarea, summary, [role="region"], [role="log"], dialog, aside, nav')]
    .filter((one) => !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.labels?.length || one.textContent.trim())).map((one) => one.outerHTML));
  assert.deepEqual(nameless, []);
  const log = by(page, 'messages');
  assert.equal(await log.getAttribute('role'), 'log');
  assert.equal(await answers(page).getByTestId('message-text').getAttribute('aria-busy'), 'false');
  assert.equal(await page.locator('#announcer').innerText(), 'The answer is complete.');
  assert.deepEqual(await page.evaluate(() => [document.documentElement.lang, document.querySelectorAll('main').length, document.querySelectorAll('h1').length]), ['en', 1, 1]);
  await closePage(page);
});

/** Elements with text of their own and less contrast than 4.5 with what is behind them. */
function faintTexts() {
  const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const faint = [];
  for (const one of document.querySelectorAll('body *')) {
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || !one.checkVisibility({ opacityProperty: true }) || one.matches('.unseen, noscript, :disabled')) continue;
    let behind = one;
    while (behind && (parse(getComputedStyle(behind).backgroundColor)[3] ?? 1) < 1) behind = behind.parentElement;
    const [a, b] = [luminance(parse(getComputedStyle(one).color)), luminance(parse(getComputedStyle(behind ?? document.body).backgroundColor))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(`${one.className || one.localName} ${ratio.toFixed(2)} ${one.textContent.slice(0, 20)}`);
  }
  return faint;
}

test('dark and light: by the system, by the toggle, with enough contrast', async () => {
  for (const scheme of ['dark', 'light']) {
    const page = await openPage(server, { scheme });
    const quote = `> quote\n\n${wide}\n\n\`\`\`js\nlet a = "b" + 1; // c\n\`\`\``;
    await answerWith(page, (_, n) => (n === 1 ? streamOf([quote]) : { status: 500, body: '' }));
    await ask(page, 'Hello');
    await ask(page, 'Fail', 'error');
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), scheme);
    assert.deepEqual(await page.evaluate(faintTexts), []);
    await by(page, 'settings-open').click();
    assert.deepEqual(await page.evaluate(faintTexts), []);
    await page.keyboard.press('Escape');
    const other = scheme === 'dark' ? 'light' : 'dark';
    await by(page, 'theme-toggle').click();
    await page.reload();
    assert.equal(await theme(), other);
    await by(page, 'theme-toggle').click();
    await page.emulateMedia({ colorScheme: other });
    // The page follows the system again.
    await page.waitForFunction((wanted) => document.documentElement.dataset.theme === wanted, other);
    await closePage(page);
  }
});

test('small screens', async () => {
  for (const width of [320, 360, 600, 801]) {
    const page = await openPage(server, { width, height: 568, hasTouch: true, isMobile: width < 600 });
    await answerWith(page, () => streamOf([wide]));
    await ask(page, 'Q'.repeat(200));
    const inside = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('#scroller').scrollWidth <= document.querySelector('#scroller').clientWidth);
    assert.ok(await inside(), `${width}`);
    for (const id of ['prompt', 'send']) {
      const box = await by(page, id).boundingBox();
      assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= 568 && box.height >= 32, `${id} at ${width}`);
    }
    if (width <= 800) {
      assert.equal(await by(page, 'conversation').isVisible(), false);
      await by(page, 'menu').click();
      await by(page, 'conversation').waitFor();
      await page.keyboard.press('Escape');
      await by(page, 'conversation').waitFor({ state: 'hidden' });
      await by(page, 'menu').click();
      await by(page, 'new-chat').click();
      await by(page, 'conversation').waitFor({ state: 'hidden' });
      await by(page, 'menu').click();
    }
    await by(page, 'settings-open').click();
    const dialog = await by(page, 'settings').boundingBox();
    assert.ok(dialog.x >= 0 && dialog.x + dialog.width <= width && dialog.y + dialog.height <= 568);
    assert.ok(await inside());
    await closePage(page);
  }
});

test('no motion where none is wanted', async () => {
  const page = await openPage(server, { reducedMotion: 'reduce' });
  await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<p class="waiting"><span></span></p>'));
  assert.deepEqual(await page.evaluate(() => [getComputedStyle(document.querySelector('.waiting span')).animationName, getComputedStyle(document.querySelector('.sidebar')).transitionDuration]), ['none', '0s']);
  await closePage(page);
});

test('a chunk draws the last block alone', async () => {
  const page = await openPage(server);
  const blocks = Array.from({ length: 40 }, (_, at) => `Paragraph ${at} with **text**.`);
  await page.evaluate(() => {
    window.added = 0;
    new MutationObserver((records) => { for (const record of records) window.added += [...record.addedNodes].filter((node) => node.localName === 'p').length; })
      .observe(document.querySelector('#messages'), { childList: true, subtree: true });
    // The server's pieces, one after the other with a frame between them.
    const send = window.fetch;
    window.fetch = (path, options) => {
      if (!String(path).includes('chat')) return send(path, options);
      const text = window.pieces.map((content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`).concat('data: [DONE]\n\n');
      const body = new ReadableStream({ async pull(controller) {
        await new Promise((done) => setTimeout(done, 25));
        if (text.length) controller.enqueue(new TextEncoder().encode(text.shift()));
        else controller.close();
      } });
      return Promise.resolve(new Response(body, { headers: { 'Content-Type': 'text/event-stream' } }));
    };
  });
  await page.evaluate((pieces) => { window.pieces = pieces; }, blocks.map((text) => `${text}\n\n`));
  await ask(page, 'Write');
  assert.equal(await answers(page).locator('.message-text p').count(), 40);
  const added = await page.evaluate(() => window.added);
  assert.ok(added <= 3 * 40, `${added} paragraphs were made for 40`);
  await closePage(page);
});
