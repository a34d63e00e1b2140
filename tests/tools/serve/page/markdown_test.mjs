// The Markdown reader, without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import { highlight } from '../../../../tools/serve/page/highlight.mjs';
import { parseInline, safeHref } from '../../../../tools/serve/page/inline.mjs';
import { parseMath } from '../../../../tools/serve/page/math.mjs';
import { finalCount, parseMarkdown } from '../../../../tools/serve/page/markdown.mjs';

const kinds = (text) => parseMarkdown(text).map((block) => block.kind);
const first = (text) => parseMarkdown(text)[0];
/** Inline nodes as a short text: <b>…</b>. */
function inline(nodes) {
  return nodes.map((node) => (typeof node === 'string' ? node : node.kind === 'break' ? '<br>' : node.kind === 'link' ? `<a ${node.href}>${inline(node.nodes)}</a>`
    : `<${node.kind}>${node.text ?? inline(node.nodes)}</${node.kind}>`)).join('');
}
const line = (text, streaming) => inline(parseInline(text, streaming));

test('blocks', () => {
  assert.deepEqual(kinds('# A\ntext\n- one\n1. two\n> said\n\n---\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```c\nx\n```'), ['heading', 'paragraph', 'list', 'list', 'quote', 'rule', 'table', 'code']);
  assert.deepEqual([first('### Title ###').level, first('### Title ###').text], [3, 'Title']);
  assert.equal(first('#hashtag').kind, 'paragraph');
  assert.deepEqual([first('Title\n=====').level, first('Title\n---').level], [1, 2]);
  assert.deepEqual(kinds('```\nopen\n# code'), ['code']);
  assert.equal(first('```py\n\tx\n\n  y\n```').text, '\tx\n\n  y');
  assert.equal(first('~~~~\n```\n~~~~').text, '```');
  assert.equal(first('```\r\na\r\nb\r\n```').text, 'a\nb');
});

test('what is final stays, whatever is appended', () => {
  const count = (text) => finalCount(parseMarkdown(text), text);
  assert.deepEqual(['', 'one', 'one\n\ntwo\n', '1. one\n\n2', '1. one\n\ntwo\n', '# one\ntwo', '- one\n\ntwo\n\nthree'].map(count), [0, 0, 1, 0, 1, 1, 1]);
  for (const whole of ['1. **One**\n\n   text\n\n2. two\n\n10. ten\n\n2\n', 'Text\n***bold***\n#tag\n```code```\n', 'Text\na | b\n--|--\n1 | 2\n\nEnd\n', 'a | b\n--|--|--\n', '> Said\n***so***\n\n```\nx\n```\n- a\n']) {
    const blocks = parseMarkdown(whole);
    for (let end = 1; end <= whole.length; end++) {
      const part = parseMarkdown(whole.slice(0, end)), final = finalCount(part, whole.slice(0, end));
      assert.deepEqual(part.slice(0, final), blocks.slice(0, final), whole.slice(0, end));
    }
  }
});

/** A formula's tree as text: <tag …>, without attributes. */
function tree(node) {
  return node.text ?? `${node.tag}(${node.children.map(tree).join(' ')})`;
}
const formula = (text, display) => tree(parseMath(text, display).children[0]).slice(5, -1);

test('formulas', () => {
  for (const [text, expected] of [
    ['x_1^2', 'msubsup(x 1 2)'],
    ['\\frac{a}{b}', 'mfrac(a b)'],
    ['\\frac12', 'mfrac(1 2)'],
    ['\\sqrt[3]{x}', 'mroot(x 3)'],
    ['\\sum_{i=1}^n i', 'munderover(∑ mrow(i = 1) n) i'],
    ["f'(x) \\leq -1.5", 'msup(f ′) ( x ) ≤ − 1.5'],
    ['\\mathbb{R}\\mathbf{v}\\mathcal{L}', 'ℝ 𝐯 ℒ'],
    ['\\left(\\frac ab\\right)', 'mrow(( mfrac(a b) ))'],
    ['{n \\choose k}', 'mrow(( mfrac(n k) ))'],
    ['\\begin{cases} 1 & x \\\\ 0 \\end{cases}', 'mrow({ mtable(mtr(mtd(1) mtd(x)) mtr(mtd(0))))'],
    ['\\text{if } \\unknown{x}', 'if\u00a0 \\unknown x'],
    ['}a^', 'msup(a mrow())'],
  ]) assert.equal(formula(text), expected, text);
  assert.equal(parseMath('x', true).attributes.display, 'block');
  for (const text of ['{'.repeat(1e4), '\\frac'.repeat(4000), '\\left('.repeat(2000), 'x'.repeat(30000)]) assert.equal(parseMath(text), null);
});

test('what is a formula, and what is money', () => {
  const math = (text) => parseInline(text).map((node) => (node.kind === 'math' ? `<${node.text}>` : typeof node === 'string' ? node : '?')).join('');
  for (const [text, expected] of [
    ['$x^2$, \\(a_b\\) and $$c$$', '<x^2>, <a_b> and <c>'],
    ['It costs $5 and $10, or $5-$10; a$b$c', 'It costs $5 and $10, or $5-$10; a$b$c'],
    ['$\\$5$ $ x $ \\$x$', '<\\$5> $ x $ $x$'],
    ['\\(open, \\[1] and \\*', '(open, [1] and *'],
  ]) assert.equal(math(text), expected, text);
  assert.deepEqual(kinds('Text\n$$\nx\n= 1\n$$\nmore'), ['paragraph', 'math', 'paragraph']);
  assert.deepEqual(kinds('\\begin{align}\na &= b\n\\end{align}'), ['math']);
  assert.deepEqual(kinds('$$ a $$ and more\n\n$$\na\n\nb'), ['paragraph', 'paragraph', 'paragraph']);
});

test('where a block starts', () => {
  const text = 'one\n\ntwo\ntwo\n\n\n# three\n```\nfour';
  assert.deepEqual(parseMarkdown(text).map((block) => text.slice(block.start, block.start + 5)), ['one\n\n', 'two\nt', '# thr', '```\nf']);
});

test('what is drawn for good stays as it is when more follows', () => {
  const text = '# A\n\nOne **two**\nthree\n\n- a\n  - b\n\n- c\n\n1. x\n\n   y\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n> q\n\n```js\nlet a;\n\nlet b;\n```\nend\n===\n\nlast';
  const whole = parseMarkdown(text);
  for (let end = 1; end <= text.length; end++) {
    const part = parseMarkdown(text.slice(0, end));
    const final = part.slice(0, -1).map(({ end: _, ...block }) => block);
    assert.deepEqual(final, whole.slice(0, final.length).map(({ end: _, ...block }) => block), JSON.stringify(text.slice(0, end)));
  }
});

test('lists', () => {
  const list = first('3. three\n4. four\n   - inner\n     - innermost\n\n   text');
  assert.deepEqual([list.ordered, list.first, list.items.length], [true, 3, 2]);
  assert.deepEqual(list.items[1].blocks.map((block) => block.kind), ['paragraph', 'list', 'paragraph']);
  assert.equal(first('1. a\n  - careless').items[0].blocks[1].kind, 'list');
  assert.equal(first('- a\n\t- tab').items[0].blocks[1].kind, 'list');
  assert.deepEqual([first('- a\n- b').loose, first('- a\n\n- b').loose], [false, true]);
  assert.deepEqual(first('- [x] done\n- [ ] open\n- none').items.map((item) => item.checked), [true, false, null]);
  assert.deepEqual(kinds('- a\n\ntext'), ['list', 'paragraph']);
  assert.equal(first('1. a\n   ```\n   code\n   ```\n2. b').items.length, 2);
  assert.deepEqual(kinds('The year\n1984. was long'), ['paragraph']);
});

test('tables', () => {
  const table = first('| a \\| b | `c` |\n|:-:|--:|\n| 1 |\n| 2 | 3 | 4 |');
  assert.deepEqual([table.head, table.align, table.rows], [['a | b', '`c`'], ['center', 'right'], [['1', ''], ['2', '3']]]);
  assert.deepEqual(kinds('a | b\ntext'), ['paragraph']);
});

test('inline', () => {
  assert.equal(line('**b** *i* _i_ __b__ ~~d~~ ***x***'), '<strong>b</strong> <em>i</em> <em>i</em> <strong>b</strong> <del>d</del> <em><strong>x</strong></em>');
  assert.equal(line('snake_case_name 2 * 3 * 4 a*b*c'), 'snake_case_name 2 * 3 * 4 a<em>b</em>c');
  assert.equal(line('`a * b` ``x ` y`` `open'), '<code>a * b</code> <code>x ` y</code> `open');
  assert.equal(line('\\*no\\* &amp; &#65; &nope;'), '*no* & A &nope;');
  assert.equal(line('a  \nb\nc'), 'a<br>b<br>c');
  assert.equal(line('**a [b](https://x.org/) c**'), '<strong>a <a https://x.org/>b</a> c</strong>');
  assert.equal(line('![alt](https://x.org/i.png) <https://y.org>'), '<a https://x.org/i.png>alt</a> <a https://y.org>https://y.org</a>');
  assert.equal(line('see https://x.org/a_(b)?c=1. (https://y.org) [1] [x]'), 'see <a https://x.org/a_(b)?c=1>https://x.org/a_(b)?c=1</a>. (<a https://y.org>https://y.org</a>) [1] [x]');
  assert.equal(line('**op', true) + line('`op', true), '<strong>op</strong><code>op</code>');
});

test('links that could do harm are text', () => {
  for (const address of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'java\tscript:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd', '//x.org', '/path', 'x', '']) assert.equal(safeHref(address), null, address);
  assert.equal(line('[a](javascript:alert(1)) [b](<javascript:alert(1)>) <javascript:alert(1)>').includes('<a '), false);
  assert.equal(safeHref('https://x.org/'), 'https://x.org/');
});

test('nothing is lost of odd texts', () => {
  for (const text of ['*', '**', '***', '****', '_', '`', '``', '[', ']', '[](', '![', '](x)', '<', '&', '&#0;', '\\', '~~', '[[[[', '*a **b', '**a *b**', '_a __b_', '[a *b](c)*', '<script>x</script>']) {
    assert.equal(parseInline(text).every((node) => typeof node === 'string' || node.nodes || node.text !== undefined), true, text);
    if (!/[a-z]/.test(text)) assert.equal(line(text), text === '\\' ? '\\' : text);
  }
  assert.equal(line('<script>x</script>'), '<script>x</script>');
});

test('deep and long texts are read', () => {
  for (const unit of ['> ', '- ', '*', '[', '`', '|', '![', '_a ', '<', '&', '](', '1. ', '#', '**a', ' ', '\n', '- \n ', '| a |\n|---|\n']) assert.ok(parseMarkdown(unit.repeat(20000)).length >= 0);
  const quotes = (block, depth) => (block?.kind === 'quote' ? quotes(block.blocks[0], depth + 1) : depth);
  assert.equal(quotes(first('> '.repeat(100) + 'x'), 0), 12);
});

test('code in colours is the same code', () => {
  const code = 'int main() { // "no string"\n  return 0x1F + \'a\'; /* open';
  assert.equal(highlight(code, 'cpp').map(([, text]) => text).join(''), code);
  assert.deepEqual(highlight('if x: # y', 'python'), [['keyword', 'if'], [null, ' x: '], ['comment', '# y']]);
  assert.deepEqual(highlight('if x', 'unknown'), [[null, 'if x']]);
});
