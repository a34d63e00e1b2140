// Markdown within a paragraph: text → a list of strings and nodes { kind, nodes | text, href }.
// Kinds: strong, em, del, code, link, break, math { text, display }. Time is linear in any text.

const MAX_OPEN = 64;       // emphasis and brackets open at a time; more are text
const MAX_HREF = 2048;
// $x$, as Pandoc reads it: $5 and $6 are money. Longer formulas stand in $$…$$ or \\[…\\].
const dollarMath = /\$(?![\s$])((?:\\[^]|[^\\$\n]|\n(?!\n)){1,2000})(?<![\s\\])\$(?![\p{L}\p{N}])/uy;
const mathMarks = { '$$': '$$', '\\(': '\\)', '\\[': '\\]' };
const namedCharacters = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };
const blank = /^$|\s/u;
const punctuation = /[\p{P}\p{S}]/u;

/** The address if a click on it may be allowed, else null. */
export function safeHref(address) {
  if (address.length > MAX_HREF) return null;
  try {
    return ['http:', 'https:', 'mailto:'].includes(new URL(address).protocol) ? address : null;
  } catch {
    return null;
  }
}

class InlineParser {
  constructor(text, streaming) {
    this.text = text;
    this.streaming = streaming;
    this.at = 0;
    // Open frames, outermost first; the first is the paragraph. Then the number of frames per mark.
    this.frames = [{ mark: '', count: 0, nodes: [] }];
    this.open = { '*': 0, _: 0, '~': 0, '[': 0 };
    this.noRun = new Set();   // lengths of backtick runs that do not occur again
    this.noMath = new Set();  // ends of formulas that do not occur again
  }

  push(node) {
    const nodes = this.frames.at(-1).nodes;
    if (typeof node === 'string' && typeof nodes.at(-1) === 'string') nodes[nodes.length - 1] += node;
    else if (node !== '') nodes.push(node);
  }

  parse() {
    const special = /[\\`*_~[\]!<&\n$]|https?:\/\//g;
    while (this.at < this.text.length) {
      special.lastIndex = this.at;
      const found = special.exec(this.text);
      const next = found ? found.index : this.text.length;
      this.push(this.text.slice(this.at, next));
      this.at = next;
      if (found) this.step(found[0]);
    }
    this.collapse(1, this.streaming);
    return this.frames[0].nodes;
  }

  step(mark) {
    if (mark === '\\') return this.math() || this.escape();
    if (mark === '$') return this.math() || this.dollar();
    if (mark === '`') return this.codeSpan();
    if (mark === '*' || mark === '_' || mark === '~') return this.delimiters(mark);
    if (mark === '[' || mark === '!') return this.openBracket(mark);
    if (mark === ']') return this.closeBracket();
    if (mark === '<') return this.angle();
    if (mark === '&') return this.character();
    if (mark === '\n') return this.lineBreak();
    return this.bareAddress();
  }

  take(length) {
    this.push(this.text.slice(this.at, this.at + length));
    this.at += length;
  }

  /** Parses a formula between marks; false if the text has none here. */
  math() {
    const open = this.text.slice(this.at, this.at + 2), close = mathMarks[open];
    if (!close || this.noMath.has(close)) return false;
    const end = this.text.indexOf(close, this.at + 2);
    if (end < 0) this.noMath.add(close);
    if (end < 0 || this.text.slice(this.at + 2, end).trim() === '') return false;
    this.push({ kind: 'math', text: this.text.slice(this.at + 2, end), display: open !== '\\(' });
    this.at = end + 2;
    return true;
  }

  dollar() {
    dollarMath.lastIndex = this.at;
    const found = /[\p{L}\p{N}]/u.test(this.text[this.at - 1] ?? '') ? null : dollarMath.exec(this.text);
    if (!found) return this.take(1);
    this.push({ kind: 'math', text: found[1], display: false });
    this.at += found[0].length;
  }

  escape() {
    const next = this.text[this.at + 1] ?? '';
    if (next === '\n') this.at += 1;
    else if (/[!-/:-@[-`{-~]/.test(next)) { this.push(next); this.at += 2; }
    else this.take(1);
  }

  // A line that ends is a line that ends: answers are written in lines.
  lineBreak() {
    const nodes = this.frames.at(-1).nodes;
    if (typeof nodes.at(-1) === 'string') nodes[nodes.length - 1] = nodes.at(-1).trimEnd();
    this.push({ kind: 'break' });
    this.at += 1;
    while (this.text[this.at] === ' ') this.at += 1;
  }

  codeSpan() {
    const run = /`+/y;
    run.lastIndex = this.at;
    const length = run.exec(this.text)[0].length;
    const begin = this.at + length;
    const end = this.noRun.has(length) ? -1 : this.endOfCode(begin, length);
    if (end < 0) {
      this.noRun.add(length);
      if (!this.streaming || length > 2) return this.take(length);
    }
    let code = this.text.slice(begin, end < 0 ? undefined : end).replaceAll('\n', ' ');
    if (code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '') code = code.slice(1, -1);
    this.push({ kind: 'code', text: code });
    this.at = end < 0 ? this.text.length : end + length;
  }

  endOfCode(from, length) {
    const runs = /`+/g;
    runs.lastIndex = from;
    for (let run; (run = runs.exec(this.text));) if (run[0].length === length) return run.index;
    return -1;
  }

  delimiters(mark) {
    let end = this.at;
    while (this.text[end] === mark) end += 1;
    let count = end - this.at;
    if (mark === '~' && count !== 2) return this.take(count);
    const before = this.text[this.at - 1] ?? '', after = this.text[end] ?? '';
    const leftFlanking = !blank.test(after) && (!punctuation.test(after) || blank.test(before) || punctuation.test(before));
    const rightFlanking = !blank.test(before) && (!punctuation.test(before) || blank.test(after) || punctuation.test(after));
    const canOpen = leftFlanking && (mark !== '_' || !rightFlanking || punctuation.test(before));
    const canClose = rightFlanking && (mark !== '_' || !leftFlanking || punctuation.test(after));
    this.at = end;
    if (canClose) count = this.close(mark, count);
    if (count === 0) return;
    if (canOpen && this.frames.length < MAX_OPEN) {
      this.frames.push({ mark, count, nodes: [] });
      this.open[mark] += 1;
    } else {
      this.push(mark.repeat(count));
    }
  }

  /** Closes what it can of what is open with this mark; how many marks are left. */
  close(mark, count) {
    while (count > 0 && this.open[mark] > 0) {
      let at = this.frames.length - 1;
      while (this.frames[at].mark !== mark) at -= 1;
      this.collapse(at + 1, false);
      const frame = this.frames[at];
      const used = Math.min(2, count, frame.count);
      if (mark === '~' && used < 2) break;
      const node = { kind: mark === '~' ? 'del' : used === 2 ? 'strong' : 'em', nodes: frame.nodes };
      count -= used;
      frame.count -= used;
      frame.nodes = [node];
      if (frame.count === 0) {
        this.frames.pop();
        this.open[mark] -= 1;
        this.push(node);
      }
    }
    return count;
  }

  /**
   * Removes the frames from `from` on, which were never closed: their marks are text. While an
   * answer streams in, strong text may still be closed.
   */
  collapse(from, streaming) {
    const frames = this.frames.splice(from);
    for (const frame of frames) {
      this.open[frame.mark] -= 1;
      if (streaming && frame.mark === '*' && frame.count === 2) this.push({ kind: 'strong', nodes: frame.nodes });
      else {
        this.push(frame.mark === '[' ? frame.text : frame.mark.repeat(frame.count));
        for (const node of frame.nodes) this.push(node);
      }
    }
  }

  openBracket(mark) {
    const text = mark === '!' ? '![' : '[';
    if (!this.text.startsWith(text, this.at) || this.frames.length >= MAX_OPEN) return this.take(1);
    this.frames.push({ mark: '[', text, count: 1, nodes: [] });
    this.open['['] += 1;
    this.at += text.length;
  }

  // [text](address "title"); an image is a link to it, as nothing is loaded from elsewhere.
  closeBracket() {
    if (this.open['['] === 0) return this.take(1);
    let at = this.frames.length - 1;
    while (this.frames[at].mark !== '[') at -= 1;
    const target = /\]\([ \t]{0,20}(?:<([^<>\n]{0,2048})>|([^\s<()]{0,2048}(?:\([^\s()]{0,2048}\)[^\s()]{0,2048})?))(?:[ \t]{1,20}(?:"[^"\n]{0,500}"|'[^'\n]{0,500}'))?[ \t]{0,20}\)/y;
    target.lastIndex = this.at;
    const found = target.exec(this.text);
    if (!found) {
      this.collapse(at, false);
      return this.take(1);
    }
    this.collapse(at + 1, false);
    const { nodes } = this.frames.pop();
    this.open['['] -= 1;
    this.at += found[0].length;
    const href = safeHref(found[1] ?? found[2]);
    if (href) this.push({ kind: 'link', href, nodes: nodes.length ? nodes : [href] });
    else for (const node of nodes) this.push(node);
  }

  angle() {
    const address = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2048})>/y;
    address.lastIndex = this.at;
    const found = address.exec(this.text);
    const href = found && safeHref(found[1]);
    if (!href) return this.take(1);
    this.push({ kind: 'link', href, nodes: [found[1]] });
    this.at += found[0].length;
  }

  bareAddress() {
    const address = /https?:\/\/[^\s<>"'`*|]{1,2048}/y;
    address.lastIndex = this.at;
    let found = address.exec(this.text)?.[0].replace(/[.,;:!?_~\]]{1,100}$/, '') ?? '';
    if (found.endsWith(')') && !found.includes('(')) found = found.slice(0, -1);
    const href = /\w$/.test(this.text[this.at - 1] ?? '') ? null : safeHref(found);
    if (!href || this.open['['] > 0) return this.take(4);
    this.push({ kind: 'link', href, nodes: [found] });
    this.at += found.length;
  }

  character() {
    const name = /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-z]{2,4}));/y;
    name.lastIndex = this.at;
    const found = name.exec(this.text);
    const code = found && (found[1] ? Number(found[1]) : found[2] ? parseInt(found[2], 16) : null);
    const text = !found ? null : found[3] ? namedCharacters[found[3]] : code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : null;
    if (!text) return this.take(1);
    this.push(text);
    this.at += found[0].length;
  }
}

/**
 * Parses text. `streaming`: more may follow, so code and strong text are shown as such before they
 * are closed.
 */
export function parseInline(text, streaming = false) {
  return new InlineParser(text, streaming).parse();
}
