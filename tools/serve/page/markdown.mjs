// Markdown's blocks: text → [{ kind, start, … }], where `start` is the offset of the block's first
// line. Appended text changes the last block, or the last two (finalCount), so a growing answer is
// drawn block by block. Kinds: paragraph { text }, heading { level, text }, code { language, text,
// closed }, quote { blocks }, rule, math { text, closed }, list { ordered, first, loose, items: [{
// checked, blocks }] }, table { align, head, rows }. HTML is text.

const MAX_DEPTH = 12;  // quotes and lists within each other; deeper ones are text
const endedKinds = ['code', 'heading', 'rule'];  // they never include the next line

const fencePattern = /^[ \t]*(`{3,}|~{3,})[ \t]*([^`]*)$/;
const headingPattern = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const rulePattern = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const quotePattern = /^ {0,3}> ?/;
const markerPattern = /^([ \t]*)([-*+]|(\d{1,9})[.)])(?:([ \t]+)|$)/;
const tableRulePattern = /^\|?:?-+:?(?:\|:?-+:?)*\|?$/;  // without its blanks

const mathPattern = /^ {0,3}(\$\$|\\\[|\\begin\{(?:equation|align|alignat|gather|multline|eqnarray|displaymath)\*?\})(.*)$/;

const isBlank = (line) => line.trim() === '';

/** The width of the blanks that begin a text; a tab is four. */
function indentOf(line) {
  let width = 0;
  for (let at = 0; line[at] === ' ' || line[at] === '\t'; at++) width += line[at] === ' ' ? 1 : 4;
  return width;
}

/** The line without its first blanks, up to this width. */
function without(line, indent) {
  let at = 0;
  for (let width = 0; width < indent && (line[at] === ' ' || line[at] === '\t'); at++) width += line[at] === ' ' ? 1 : 4;
  return line.slice(at);
}

/** The cells of a table's row; a bar after a backslash is text. */
function cellsOf(line) {
  const cells = line.trim().replace(/^\|/, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
  if (cells.at(-1) === '' && cells.length > 1) cells.pop();
  return cells;
}

function isTable(lines, at) {
  const rule = lines[at + 1];
  return lines[at].includes('|') && rule !== undefined && rule.includes('|') && tableRulePattern.test(rule.replace(/[ \t]/g, '')) &&
    cellsOf(rule).length === cellsOf(lines[at]).length;
}

/** True if a line ends the paragraph above it. */
function interrupts(lines, at) {
  const line = lines[at];
  if (fencePattern.test(line) || headingPattern.test(line) || rulePattern.test(line) || quotePattern.test(line) || mathPattern.test(line) || isTable(lines, at)) return true;
  const marker = markerPattern.exec(line);
  return marker !== null && marker[4] !== undefined && (marker[3] === undefined || Number(marker[3]) === 1);
}

function codeBlock(lines, at, fence) {
  const indent = indentOf(lines[at]);
  const closing = (line) => {
    const text = line.trim();
    return text.length >= fence[1].length && text[0] === fence[1][0] && text === text[0].repeat(text.length);
  };
  const text = [];
  let end = at + 1;
  while (end < lines.length && !closing(lines[end])) text.push(without(lines[end++], indent));
  const closed = end < lines.length;
  return { kind: 'code', language: fence[2].trim().split(/\s/)[0], text: text.join('\n'), closed, end: end + (closed ? 1 : 0) };
}

/**
 * Parses a formula in lines of its own, up to a line that ends with its end mark. Returns null if a
 * blank line, which TeX forbids, or other text comes first.
 */
function mathBlock(lines, at, [, mark, first]) {
  const environment = mark.startsWith('\\begin'), close = environment ? mark.replace('begin', 'end') : mark === '$$' ? '$$' : '\\]';
  const text = [];
  for (let end = at; end < lines.length && !isBlank(lines[end]); end++) {
    const line = end === at ? first : lines[end], place = line.indexOf(close);
    text.push(place < 0 ? line : line.slice(0, place));
    if (place >= 0 && !/^[\s.,;]*$/.test(line.slice(place + close.length))) return null;
    if (place >= 0) return { kind: 'math', text: environment ? `${mark}${text.join('\n')}${close}` : text.join('\n'), closed: true, end: end + 1 };
    if (end === lines.length - 1) return { kind: 'math', text: lines.slice(at).join('\n'), closed: false, end: end + 1 };
  }
  return null;
}

function quoteBlock(lines, at, depth) {
  const inner = [];
  let end = at;
  while (end < lines.length && (quotePattern.test(lines[end]) || (!isBlank(lines[end]) && !interrupts(lines, end)))) inner.push(lines[end++].replace(quotePattern, ''));
  return { kind: 'quote', blocks: parseLines(inner, depth + 1), end };
}

/**
 * Parses an item whose first line is at `at`. It includes lines indented by at least two blanks,
 * since answers indent carelessly.
 */
function listItem(lines, at, marker, depth) {
  const indent = indentOf(lines[at]);
  const before = marker[1].length + marker[2].length + Math.min(marker[4]?.length ?? 1, 4);
  const content = indent + before - marker[1].length;
  const inner = [lines[at].slice(before)];
  let end = at + 1, blanks = 0, loose = false;
  for (; end < lines.length; end++) {
    const line = lines[end];
    if (isBlank(line)) { blanks += 1; continue; }
    const within = indentOf(line) >= indent + 2;
    if (!within && (blanks > 0 || markerPattern.test(line) || interrupts(lines, end))) break;
    if (blanks > 0) loose = true;
    for (; blanks > 0; blanks--) inner.push('');
    inner.push(without(line, content));
  }
  const task = /^\[([ xX])\] +/.exec(inner[0]);
  if (task) inner[0] = inner[0].slice(task[0].length);
  return { item: { checked: task ? task[1] !== ' ' : null, blocks: parseLines(inner, depth + 1) }, end: end - blanks, blanks, loose };
}

function listBlock(lines, at, marker, depth) {
  const ordered = marker[3] !== undefined, kind = marker[2].at(-1);
  const list = { kind: 'list', ordered, first: ordered ? Number(marker[3]) : 1, loose: false, items: [], end: at };
  for (let next = marker; next && next[2].at(-1) === kind && indentOf(next[1]) < indentOf(marker[1]) + 2;) {
    const { item, end, blanks, loose } = listItem(lines, list.end, next, depth);
    list.items.push(item);
    list.end = end;
    next = end + blanks < lines.length && !rulePattern.test(lines[end + blanks]) ? markerPattern.exec(lines[end + blanks]) : null;
    const goesOn = next && next[2].at(-1) === kind && indentOf(next[1]) < indentOf(marker[1]) + 2;
    list.loose ||= loose || (blanks > 0 && Boolean(goesOn));
    if (goesOn) list.end = end + blanks;
  }
  return list;
}

function tableBlock(lines, at) {
  const head = cellsOf(lines[at]);
  const align = cellsOf(lines[at + 1]).map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : 'left'));
  const rows = [];
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|')) {
    const cells = cellsOf(lines[end++]);
    rows.push(head.map((_, column) => cells[column] ?? ''));
  }
  return { kind: 'table', align, head, rows, end };
}

function paragraphBlock(lines, at) {
  const text = [lines[at].trimStart()];
  let end = at + 1;
  for (; end < lines.length && !isBlank(lines[end]); end++) {
    const underline = /^ {0,3}(=+|-{2,})[ \t]*$/.exec(lines[end]);
    if (underline) return { kind: 'heading', level: underline[1][0] === '=' ? 1 : 2, text: text.join('\n'), end: end + 1 };
    if (interrupts(lines, end)) break;
    text.push(lines[end].trimStart());
  }
  return { kind: 'paragraph', text: text.join('\n').trimEnd(), end };
}

function blockAt(lines, at, depth) {
  const line = lines[at];
  const fence = fencePattern.exec(line);
  if (fence) return codeBlock(lines, at, fence);
  const heading = headingPattern.exec(line);
  if (heading) return { kind: 'heading', level: heading[1].length, text: line.slice(heading[0].length).trimEnd().replace(/(?:^|[ \t])#{1,100}$/, '').trim(), end: at + 1 };
  if (rulePattern.test(line)) return { kind: 'rule', end: at + 1 };
  const formula = mathPattern.exec(line), math = formula && mathBlock(lines, at, formula);
  if (math) return math;
  if (depth < MAX_DEPTH) {
    if (quotePattern.test(line)) return quoteBlock(lines, at, depth);
    const marker = markerPattern.exec(line);
    if (marker) return listBlock(lines, at, marker, depth);
  }
  return isTable(lines, at) ? tableBlock(lines, at) : paragraphBlock(lines, at);
}

/** The blocks of lines; `start` and `end` count lines. */
function parseLines(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) { at += 1; continue; }
    const block = blockAt(lines, at, depth);
    blocks.push({ ...block, start: at });
    at = block.end;
  }
  return blocks;
}

export function parseMarkdown(text) {
  const lines = text.split('\n');
  const offsets = [];
  let offset = 0;
  for (const line of lines) {
    offsets.push(offset);
    offset += line.length + 1;
  }
  return parseLines(lines.map((line) => line.replace(/\r$/, '')), 0).map((block) => ({ ...block, start: offsets[block.start] }));
}

/**
 * Returns the number of blocks that stay as they are, whatever is appended. While the first line
 * of the last block is incomplete, it may still turn out to belong to the block before: `2` is a
 * paragraph below a list, `2. two` the list's next item. A table is known by its second line.
 */
export function finalCount(blocks, text) {
  if (blocks.length < 2) return 0;
  const [before, last] = blocks.slice(-2);
  const complete = text.slice(last.start).split('\n').length > (last.kind === 'table' ? 2 : 1);
  return blocks.length - (complete || endedKinds.includes(before.kind) ? 1 : 2);
}
