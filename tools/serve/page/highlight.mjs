// Colours for code: comments, strings, numbers and keywords of most languages. It knows families of
// languages, not single languages. Unknown text stays plain.

const keywords = new Set(('abstract and as assert async await auto begin bool boolean break case catch char class const constexpr continue def default defer del do double elif else ' +
  'elsif end enum except export extends extern false final finally float fn for foreach from func function global go if impl implements import in include instanceof int interface is lambda let ' +
  'local long loop match mod module mut namespace new nil none null None not null operator or override package pass private protected pub public raise return self short signed static struct super ' +
  'switch template then this throw throws trait true True False try type typedef typename union unless unsigned until use using val var virtual void where while with yield').split(' '));
const sqlWords = new Set(('add all alter and as asc between by case create delete desc distinct drop else end exists from group having in inner insert into is join key left like limit ' +
  'not null on or order outer primary references right select set table then union unique update values when where with').split(' '));

const strings = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|` + '`(?:[^`\\\\]|\\\\.)*`?';
const words = String.raw`|(?<number>\b(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)|(?<word>[A-Za-z_$][\w$]*)`;
const scanners = {
  slash: String.raw`(?<comment>\/\/[^\n]*|\/\*[^]*?(?:\*\/|$))|(?<string>${strings})${words}`,
  hash: String.raw`(?<comment>#[^\n]*)|(?<string>"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${strings})${words}`,
  dash: String.raw`(?<comment>--[^\n]*|\/\*[^]*?(?:\*\/|$))|(?<string>${strings})${words}`,
  markup: String.raw`(?<comment><!--[^]*?(?:-->|$))|(?<word><\/?[A-Za-z][\w:-]*|\/?>)|(?<string>"[^"\n]*"|'[^'\n]*')`,
};
const families = {
  slash: 'c h cpp c++ cc hpp cs csharp css dart go golang java javascript js jsx json json5 jsonc kotlin kt mjs objc php rust rs scala scss swift ts tsx typescript zig',
  hash: 'bash conf cmake dockerfile elixir ini julia make makefile nim nix perl pl py python r rb ruby sh shell toml yaml yml zsh',
  dash: 'haskell hs lua sql sqlite postgresql mysql',
  markup: 'html xml svg vue',
};
const familyOf = new Map(Object.entries(families).flatMap(([family, names]) => names.split(' ').map((name) => [name, family])));
const MAX_HIGHLIGHTED = 60000;

/** The code's parts, in order: [class or null, text]. */
export function highlight(code, language) {
  const name = language.toLowerCase(), family = familyOf.get(name);
  if (!family || code.length > MAX_HIGHLIGHTED) return [[null, code]];
  const known = /sql/.test(name) ? (word) => sqlWords.has(word.toLowerCase()) : (word) => keywords.has(word);
  const parts = [];
  let end = 0;
  for (const found of code.matchAll(new RegExp(scanners[family], 'g'))) {
    const { comment, string, number, word } = found.groups;
    const kind = comment ? 'comment' : string ? 'string' : number ? 'number' : word && (family === 'markup' || known(word)) ? 'keyword' : null;
    if (!kind) continue;
    if (found.index > end) parts.push([null, code.slice(end, found.index)]);
    parts.push([kind, found[0]]);
    end = found.index + found[0].length;
  }
  if (end < code.length) parts.push([null, code.slice(end)]);
  return parts;
}
