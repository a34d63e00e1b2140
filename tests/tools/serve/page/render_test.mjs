// A growing answer keeps the elements that are already drawn. The browser loads the page's modules
// one by one.
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import test from 'node:test';
import { closePage, openPage, startServer } from './support.mjs';

const modules = fileURLToPath(new URL('../../../../tools/serve/page', import.meta.url));

const server = await startServer();

/** A page with a box in which answers are drawn. */
async function openBox() {
  const page = await openPage(server, { bypassCSP: true });
  await page.route('**/page/*.mjs', (route) => route.fulfill({ path: modules + new URL(route.request().url()).pathname.slice(5) }));
  await page.evaluate(async () => {
    const { AnswerText } = await import('/page/render.mjs');
    window.AnswerText = AnswerText;
    window.box = document.createElement('main');
    document.body.append(window.box);
    window.fresh = (text, streaming) => {
      const other = document.createElement('main');
      new AnswerText(other).show(text, streaming);
      return other.innerHTML;
    };
  });
  return page;
}

const code = '```js\nlet a = 1;\nlet b = 2;\n```';
const answers = {
  list: `1. **One** of them:\n   ${code.replaceAll('\n', '\n   ')}\n2. two\n   - [x] done\n   - [ ] open\n3. *three*\n\nEnd`,
  table: '| a | b |\n|:--|--:|\n| `1` | 2 |\n| 3 | **4** |\n\nEnd',
  quote: `> Said:\n> ${code.replaceAll('\n', '\n> ')}\n>\n> - one\n> - two\n\nEnd`,
  code: `Text\n\n${code}\n\nTitle\n=====\n\nEnd`,
  math: 'Roots of $x^2$:\n\n$$\nx = \\frac{a}{b}\n$$\nand \\(y\\)\n\\[\nz\n\\]\n\n$$\nopen\n\nEnd',
  // Lines that look like another block until they are complete.
  loose: `1. **One**\n\n   text\n\n2. two\n\n   ${code.replaceAll('\n', '\n   ')}\n\n10. ten\n\n2 are left\n\nEnd`,
  halves: 'Text\n***bold***\n#tag\n\na | b\n--|--\n1 | 2\n\n> Said\n***so***\n\nEnd',
};

test('an answer that grows is drawn as one that is there at once', async () => {
  const page = await openBox();
  for (const [name, text] of Object.entries(answers)) {
    const wrong = await page.evaluate((whole) => {
      window.box.replaceChildren();
      const answer = new window.AnswerText(window.box);
      for (let end = 1; end <= whole.length; end++) {
        answer.show(whole.slice(0, end), true);
        if (window.box.innerHTML !== window.fresh(whole.slice(0, end), true)) return whole.slice(0, end);
      }
      answer.show(whole, false);
      return window.box.innerHTML === window.fresh(whole, false) ? null : 'the end';
    }, text);
    assert.equal(wrong, null, name);
  }
  await closePage(page);
});

test('what stands in a list that grows stays: its button, the focus, a selection', async () => {
  const page = await openBox();
  for (const name of ['list', 'quote', 'table']) {
    const text = answers[name].replace('\n\nEnd', '');
    const lost = await page.evaluate(([whole, more]) => {
      window.box.replaceChildren();
      const answer = new window.AnswerText(window.box);
      answer.show(whole, true);
      const button = window.box.querySelector('button');
      button?.focus();
      const first = window.box.querySelector('li, td, p').firstChild;
      getSelection().selectAllChildren(first.parentNode);
      const selected = String(getSelection());
      for (let end = 1; end <= more.length; end++) answer.show(whole + more.slice(0, end), true);
      if (button && document.activeElement !== button) return 'the focus';
      if (!first.isConnected) return 'an element';
      return String(getSelection()) === selected && selected !== '' ? null : 'the selection';
    }, [text, { list: '\n4. and *more*', quote: '\n> - and **more**', table: '\n| and | more |' }[name]]);
    assert.equal(lost, null, name);
  }
  await closePage(page);
});
