// Helpers of the chat page's tests: a browser and actions on the page. $CHROMIUM names the browser
// (default: Debian's).
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { chromium } from 'playwright-core';
export { startServer } from './server.mjs';

const chromiumFlags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: chromiumFlags });
after(() => browser.close());

/**
 * Opens the page in a fresh profile. Faults are collected in `page.faults`, and close() fails if
 * there are any.
 */
export async function openPage(server, { width = 1280, height = 800, scheme = 'light', path = '/', context = null, ...more } = {}) {
  const profile = context ?? await browser.newContext({ viewport: { width, height }, colorScheme: scheme, ...more });
  profile.setDefaultTimeout(120000);  // a busy machine is slow, not wrong
  const page = await profile.newPage();
  page.faults = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !message.text().startsWith('Failed to load resource')) page.faults.push(message.text());
  });
  page.on('pageerror', (error) => page.faults.push(error.message));
  page.on('dialog', (dialog) => { page.faults.push(dialog.message()); dialog.dismiss(); });
  page.on('request', (request) => {
    if (!request.url().startsWith(server.url) && !/^(data|blob):/.test(request.url())) page.faults.push(`asks ${request.url()}`);
  });
  await page.goto(server.url + path);
  return page;
}

export async function closePage(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

export const by = (page, id) => page.getByTestId(id);
export const answers = (page) => page.locator('[data-testid="message"][data-role="assistant"]');
export const questions = (page) => page.locator('[data-testid="message"][data-role="user"]');
export const textOf = (message) => message.getByTestId('message-text').innerText();

/** Waits until the last answer is in one of `states`. */
export async function ended(page, ...states) {
  await page.waitForFunction((wanted) => wanted.includes([...document.querySelectorAll('[data-role="assistant"]')].at(-1)?.dataset.state), states.length ? states : ['done']);
}

export async function send(page, text) {
  await by(page, 'prompt').fill(text);
  await by(page, 'prompt').press('Enter');
}

export async function ask(page, text, ...states) {
  const before = await answers(page).count();
  await send(page, text);
  await page.waitForFunction((count) => document.querySelectorAll('[data-role="assistant"]').length > count, before);
  await ended(page, ...states);
}

const chunk = (delta, finish = null) => ({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] });
const event = (data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

/** Returns a stream with `deltas` (strings are content), complete unless `end` says otherwise. */
export function streamOf(deltas, end = [chunk({}, 'stop'), '[DONE]']) {
  const pieces = deltas.map((delta) => chunk(typeof delta === 'string' ? { content: delta } : delta));
  return { status: 200, contentType: 'text/event-stream', body: [chunk({ role: 'assistant', content: '' }), ...pieces, ...end].map(event).join('') };
}

export function refusal(status, code, message) {
  return { status, contentType: 'application/json', body: JSON.stringify({ error: { message, type: status < 500 ? 'invalid_request_error' : 'server_error', param: null, code } }) };
}

/**
 * Answers the page's requests with `answer(body, n)`, n from 1, or its promise, instead of the
 * server. Returns the bodies.
 */
export async function answerWith(page, answer) {
  const bodies = [];
  await page.route('**/v1/chat/completions', async (route) => {
    bodies.push(route.request().postDataJSON());
    return route.fulfill(await answer(bodies.at(-1), bodies.length));
  });
  return bodies;
}

export const stored = (page) => page.evaluate(() => JSON.parse(localStorage.getItem('cria.chat.v1')));
