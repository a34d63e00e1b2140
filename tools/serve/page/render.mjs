// Draws Markdown as elements, and answers that grow. Elements are made one by one; text is never
// read as HTML.
import { copyBy, element, icon } from './dom.mjs';
import { highlight } from './highlight.mjs';
import { parseInline } from './inline.mjs';
import { finalCount, parseMarkdown } from './markdown.mjs';
import { parseMath } from './math.mjs';

function drawTree({ tag, attributes, children, text }) {
  const made = document.createElementNS('http://www.w3.org/1998/Math/MathML', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  else made.append(...children.map(drawTree));
  return made;
}

/** A formula; one that cannot be read stays text. */
function drawMath(text, display) {
  const tree = parseMath(text, display);
  return tree ? drawTree(tree) : element('code', { text });
}

function drawInline(nodes) {
  return nodes.map((node) => {
    if (typeof node === 'string') return node;
    if (node.kind === 'break') return element('br');
    if (node.kind === 'math') return drawMath(node.text, node.display);
    if (node.kind === 'code') return element('code', { text: node.text });
    if (node.kind === 'link') {
      return element('a', { href: node.href, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...drawInline(node.nodes));
    }
    return element(node.kind, {}, ...drawInline(node.nodes));
  });
}

/** A box of code with its language and a button that copies it. */
export function codeBox(text, language, closed = true) {
  const code = element('code');
  // While it grows it stays plain: one text that is appended to.
  if (closed) code.append(...highlight(text, language).map(([kind, part]) => (kind ? element('span', { class: `code-${kind}`, text: part }) : part)));
  else code.append(text);
  const copy = element('button', { type: 'button', class: 'copy-code', testid: 'copy-code', onclick: () => copyBy(copy, copy.closest('figure').querySelector('code').textContent) },
    icon('copy'), icon('check'), element('span', { text: 'Copy' }));
  return element('figure', { class: 'code' },
    element('figcaption', {}, element('span', { text: language }), copy),
    element('pre', { tabindex: 0, role: 'region', 'aria-label': language ? `Code, ${language}` : 'Code' }, code));
}

function drawTable(block, streaming) {
  const cell = (tag, text, column) => element(tag, { class: block.align[column] === 'left' ? null : `align-${block.align[column]}`, scope: tag === 'th' ? 'col' : null },
    ...drawInline(parseInline(text, streaming)));
  return element('div', { class: 'table', tabindex: 0, role: 'region', 'aria-label': 'Table' },
    element('table', {},
      element('thead', {}, element('tr', {}, ...block.head.map((text, column) => cell('th', text, column)))),
      element('tbody', {}, ...block.rows.map((row) => element('tr', {}, ...row.map((text, column) => cell('td', text, column)))))));
}

function drawList(block, streaming) {
  const items = block.items.map(({ checked, blocks }) => {
    const item = element('li', { class: checked === null ? null : 'task' });
    if (checked !== null) item.append(element('input', { type: 'checkbox', checked, disabled: true, 'aria-label': checked ? 'done' : 'to do' }), ' ');
    for (const inner of blocks) {
      if (inner.kind === 'paragraph' && !block.loose) item.append(...drawInline(parseInline(inner.text, streaming)));
      else item.append(drawBlock(inner, streaming));
    }
    return item;
  });
  return element(block.ordered ? 'ol' : 'ul', { start: block.ordered && block.first !== 1 ? block.first : null }, ...items);
}

function drawBlock(block, streaming) {
  switch (block.kind) {
    case 'code': return codeBox(block.text, block.language, block.closed || !streaming);
    // The page's title is the first level.
    case 'heading': return element(`h${Math.min(block.level + 1, 6)}`, {}, ...drawInline(parseInline(block.text, streaming)));
    case 'math': return element('p', { class: 'formula' }, block.closed ? drawMath(block.text, true) : block.text);
    case 'list': return drawList(block, streaming);
    case 'quote': return element('blockquote', {}, ...block.blocks.map((inner) => drawBlock(inner, streaming)));
    case 'rule': return element('hr');
    case 'table': return drawTable(block, streaming);
    default: return element('p', {}, ...drawInline(parseInline(block.text, streaming)));
  }
}

/**
 * Changes an element to a freshly drawn one, and returns the element in the page. Equal parts stay,
 * so that a selection, the focus and a pressed button in a growing list are kept.
 */
function renew(old, fresh) {
  const both = (name) => old.nodeName === name && fresh.nodeName === name;
  if (old.isEqualNode(fresh) || both('BUTTON')) return old;
  if (both('#text') && fresh.data.startsWith(old.data)) {
    old.appendData(fresh.data.slice(old.length));
    return old;
  }
  if (!old.cloneNode().isEqualNode(fresh.cloneNode())) {
    old.replaceWith(fresh);
    return fresh;
  }
  const parts = [...fresh.childNodes];
  while (old.childNodes.length > parts.length) old.lastChild.remove();
  parts.forEach((part, at) => (at < old.childNodes.length ? renew(old.childNodes[at], part) : old.append(part)));
  return old;
}

/**
 * The text of an answer in a box. Each update reads and draws only blocks that may still change:
 * the last block and, while its first line is incomplete, the one before it. So the cost of a
 * chunk does not depend on the text above or on the conversation's length.
 */
export class AnswerText {
  constructor(box) {
    this.box = box;
    this.final = 0;      // the text up to here is drawn for good
    this.open = [];      // the elements of the blocks that may change
    this.code = null;    // the last one's text, if it is a box of code that is still open
  }

  /** Draws the whole text so far; `streaming`: more will follow. */
  show(text, streaming) {
    const rest = text.slice(this.final);
    const blocks = parseMarkdown(rest), last = blocks.at(-1);
    if (blocks.length === 1 && streaming && this.appendCode(last)) return;
    const drawn = blocks.map((block, at) => {
      const fresh = drawBlock(block, streaming && block === last);
      if (at < this.open.length) return renew(this.open[at], fresh);
      this.box.append(fresh);
      return fresh;
    });
    // Their text is part of the block before now.
    for (const joined of this.open.slice(blocks.length)) joined.remove();
    const settled = finalCount(blocks, rest);
    this.open = drawn.slice(settled);
    this.code = last?.kind === 'code' && !last.closed ? last.text : null;
    this.final += blocks[settled]?.start ?? 0;
  }

  appendCode(block) {
    const grows = this.code !== null && block.kind === 'code' && !block.closed && block.text.startsWith(this.code) &&
      this.open.at(-1).querySelector('figcaption span').textContent === block.language;
    if (!grows) return false;
    this.open.at(-1).querySelector('code').firstChild.appendData(block.text.slice(this.code.length));
    this.code = block.text;
    return true;
  }
}
