// TeX mathematics as a tree of MathML: { tag, attributes, children | text }. It knows what models'
// answers use: fractions, roots, scripts, accents, matrices, fonts, operators. An unknown command
// is shown by its name, so no text is lost. Sources: the TeXbook's grammar of formulas, MathML
// Core.

const MAX_NESTING = 60, MAX_LENGTH = 20000;

const pairs = (text) => new Map(text.trim().split(/\s+/).reduce((all, word, at, words) => (at % 2 ? all : [...all, [word, words[at + 1]]]), []));

const letters = pairs(`alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ nu ν xi ξ
  omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π
  Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω hbar ℏ ell ℓ Re ℜ Im ℑ aleph ℵ beth ℶ wp ℘ infty ∞ emptyset ∅ varnothing ∅ imath ı jmath ȷ nabla ∇ partial ∂
  degree ° angle ∠ triangle △ square □ blacksquare ■ bot ⊥ top ⊤ checkmark ✓ dagger † ddagger ‡ S § pounds £ euro € ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱
  dotsc … dotsb ⋯ forall ∀ exists ∃ nexists ∄ # # % % & & _ _ $ $`);
const operators = pairs(`pm ± mp ∓ times × div ÷ cdot ⋅ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ wedge ∧ land ∧ vee ∨ lor ∨
  neg ¬ lnot ¬ cap ∩ cup ∪ uplus ⊎ sqcap ⊓ sqcup ⊔ setminus ∖ wr ≀ amalg ⨿ diamond ⋄ leq ≤ le ≤ geq ≥ ge ≥ leqslant ⩽ geqslant ⩾ ll ≪ gg ≫ neq ≠ ne ≠
  equiv ≡ sim ∼ simeq ≃ approx ≈ cong ≅ propto ∝ doteq ≐ prec ≺ succ ≻ preceq ⪯ succeq ⪰ in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇
  subsetneq ⊊ supsetneq ⊋ mid ∣ nmid ∤ parallel ∥ perp ⟂ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ asymp ≍ bowtie ⋈ to → rightarrow → leftarrow ← gets ←
  leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ impliedby ⟸ iff ⟺ longrightarrow ⟶ longleftarrow ⟵ Longrightarrow ⟹
  Longleftarrow ⟸ Longleftrightarrow ⟺ mapsto ↦ longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓
  nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ rightharpoonup ⇀ leftharpoonup ↼ rightleftharpoons ⇌ therefore ∴ because ∵ colon : coloneqq ≔ triangleq ≜
  lesssim ≲ gtrsim ≳ ltimes ⋉ rtimes ⋊ trianglelefteq ⊴ backslash ∖ smile ⌣ frown ⌢`);
const bigOperators = pairs('sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ bigvee ⋁ bigwedge ⋀ biguplus ⨄ bigsqcup ⨆');
const integrals = pairs('int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯');
const delimiters = pairs(`lbrace { rbrace } { { } } lbrack [ rbrack ] langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ vert | lvert | rvert | Vert ‖ lVert ‖ rVert ‖
  | ‖ backslash \\ uparrow ↑ downarrow ↓ lgroup ⟮ rgroup ⟯`);
const accents = pairs('hat ^ widehat ^ check ˇ tilde ~ widetilde ~ acute ´ grave ` dot ˙ ddot ¨ dddot ⃛ breve ˘ bar ¯ vec → mathring ˚ overline ¯ overrightarrow → overleftarrow ← overbrace ⏞');
const accentsBelow = pairs('underline _ underbrace ⏟ underrightarrow → underleftarrow ←');
const spaces = new Map([[',', 0.167], [':', 0.222], ['>', 0.222], [';', 0.278], ['!', -0.167], [' ', 0.278], ['quad', 1], ['qquad', 2], ['enspace', 0.5], ['thinspace', 0.167], ['~', 0.278]]);
const functions = new Set(`arccos arcsin arctan arg cos cosh cot coth csc deg dim exp hom ker lg ln log sec sin sinh tan tanh`.split(' '));
const limits = new Map(['det', 'gcd', 'inf', 'lim', 'max', 'min', 'Pr', 'sup', 'argmax', 'argmin'].map((name) => [name, name]).concat([['limsup', 'lim sup'], ['liminf', 'lim inf']]));
const ignored = new Set(`displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits nonumber notag big Big bigg Bigg bigl Bigl biggl Biggl bigr Bigr biggr Biggr bigm Bigm
  left. right. allowbreak displaylimits strut mathstrut normalsize small large hfill noindent protect`.split(/\s+/));
const environments = {
  matrix: ['', ''], smallmatrix: ['', ''], pmatrix: ['(', ')'], bmatrix: ['[', ']'], Bmatrix: ['{', '}'], vmatrix: ['|', '|'], Vmatrix: ['‖', '‖'], array: ['', '', 'math-left'],
  cases: ['{', '', 'math-left'], rcases: ['', '}', 'math-left'], aligned: ['', '', 'math-align'], align: ['', '', 'math-align'], alignat: ['', '', 'math-align'], alignedat: ['', '', 'math-align'],
  split: ['', '', 'math-align'], eqnarray: ['', '', 'math-align'], gathered: ['', ''], gather: ['', ''], multline: ['', ''], equation: ['', ''], displaymath: ['', ''],
};

// First letters of Unicode's mathematical alphabets: capitals, small letters, digits (0: none).
const alphabets = { bold: [0x1d400, 0x1d41a, 0x1d7ce], italic: [0x1d434, 0x1d44e, 0], script: [0x1d49c, 0x1d4b6, 0], fraktur: [0x1d504, 0x1d51e, 0], double: [0x1d538, 0x1d552, 0x1d7d8],
  sans: [0x1d5a0, 0x1d5ba, 0x1d7e2], mono: [0x1d670, 0x1d68a, 0x1d7f6] };
const exceptions = { italic: pairs('h ℎ'), script: pairs('B ℬ E ℰ F ℱ H ℋ I ℐ L ℒ M ℳ R ℛ e ℯ g ℊ o ℴ'), fraktur: pairs('C ℭ H ℌ I ℑ R ℜ Z ℨ'), double: pairs('C ℂ H ℍ N ℕ P ℙ Q ℚ R ℝ Z ℤ') };
const fonts = pairs('mathrm normal mathbf bold boldsymbol bold bm bold mathit italic mathcal script mathscr script mathfrak fraktur mathbb double mathsf sans mathtt mono mathnormal italic rm normal bf bold');

function styled(text, font) {
  if (font === 'normal') return text;
  return [...text].map((letter) => {
    const special = exceptions[font]?.get(letter);
    if (special) return special;
    const kind = /[A-Z]/.test(letter) ? 0 : /[a-z]/.test(letter) ? 1 : /\d/.test(letter) ? 2 : -1;
    const first = kind < 0 ? 0 : alphabets[font][kind];
    return first ? String.fromCodePoint(first + letter.charCodeAt(0) - 'Aa0'.charCodeAt(kind)) : letter;
  }).join('');
}

const node = (tag, children, attributes = {}) => ({ tag, attributes, children });
const leaf = (tag, text, attributes = {}) => ({ tag, attributes, text });
const row = (children) => (children.length === 1 ? children[0] : node('mrow', children));
const space = (width) => node('mspace', [], { width: `${width}em` });
const fence = (text, stretchy) => leaf('mo', text, { stretchy: String(stretchy), ...(text === '|' || text === '‖' ? { lspace: '0', rspace: '0' } : {}) });

class MathParser {
  constructor(text, display) {
    this.tokens = text.match(/\\[A-Za-z]+\*?|\\[\s\S]|[\ud800-\udbff][\udc00-\udfff]|[\s\S]/g) ?? [];
    this.at = 0;
    this.depth = 0;
    this.display = display;
    this.font = null;
  }

  get next() {
    return this.tokens[this.at];
  }

  skipBlanks() {
    while (/^\s$/.test(this.next ?? '')) this.at += 1;
  }

  /** Parses nodes up to one of the tokens `ends`, which stays, or the end. */
  list(...ends) {
    const nodes = [], { font } = this;
    if ((this.depth += 1) > MAX_NESTING) throw new RangeError('nested too deeply');
    for (this.skipBlanks(); this.next !== undefined && !ends.includes(this.next); this.skipBlanks()) this.item(nodes);
    this.depth -= 1;
    this.font = font;
    return nodes;
  }

  /** One atom with its scripts. */
  item(nodes) {
    const token = this.tokens[this.at++];
    if (token === '\\over' || token === '\\choose') {  // {a \over b}: what came before is above
      const fraction = node('mfrac', [row(nodes.splice(0)), row(this.list('}', '\\right', '&', '\\\\'))], token === '\\over' ? {} : { linethickness: '0' });
      return nodes.push(token === '\\over' ? fraction : row([fence('(', true), fraction, fence(')', true)]));
    }
    const atom = token === '^' || token === '_' || token === "'" ? (this.at -= 1, { base: node('mrow', []) }) : this.atom(token);
    if (!atom) return undefined;
    nodes.push(this.scripts(atom));
    if (atom.spaced && !/^[\s([{)\]}|,^_&]?$|^\\(left|right|,|\\)$/.test(this.peek())) nodes.push(space(0.167));
    return undefined;
  }

  peek() {
    this.skipBlanks();
    return this.next ?? '';
  }

  scripts({ base, under = false }) {
    let above = [], below = null;
    for (this.skipBlanks(); ; this.skipBlanks()) {
      const token = this.next;
      if (token === "'") { this.at += 1; above.push(leaf('mo', '′')); }
      else if (token === '^') { this.at += 1; above.push(this.argument()); }
      else if (token === '_' && !below) { this.at += 1; below = this.argument(); }
      else if (token === '\\limits') { this.at += 1; under = true; }
      else if (token === '\\nolimits') { this.at += 1; under = false; }
      else break;
    }
    if (above.length > 0 && below) return node(under ? 'munderover' : 'msubsup', [base, below, row(above)]);
    if (above.length > 0) return node(under ? 'mover' : 'msup', [base, row(above)]);
    return below ? node(under ? 'munder' : 'msub', [base, below]) : base;
  }

  /** Parses the content of braces, or the next atom. */
  argument() {
    this.skipBlanks();
    const token = this.tokens[this.at++];
    if (token === undefined || token === '}') { this.at -= 1; return node('mrow', []); }
    // A single digit, as in \frac12.
    if (/\d/.test(token)) return leaf('mn', styled(token, this.font ?? 'normal'));
    if ((this.depth += 1) > MAX_NESTING) throw new RangeError('nested too deeply');
    const atom = this.atom(token);
    this.depth -= 1;
    return atom?.base ?? node('mrow', []);
  }

  group() {
    const nodes = this.list('}');
    this.at += 1;
    return row(nodes);
  }

  /** The text in braces as it is. */
  raw() {
    this.skipBlanks();
    if (this.next !== '{') return this.tokens[this.at++] ?? '';
    let text = '';
    for (let open = 0; this.at < this.tokens.length; this.at += 1) {
      const token = this.next;
      if (token === '{') open += 1;
      if (token === '}' && (open -= 1) === 0) { this.at += 1; break; }
      if (token !== '{' && token !== '}') text += /^\\[^A-Za-z]$/.test(token) ? token[1] : token;
    }
    return text;
  }

  /** { base, under, spaced } of a token; null: it shows nothing. */
  atom(token) {
    if (token === '{') return { base: this.group() };
    if (token[0] === '\\' && token.length > 1) return this.command(token.slice(1));
    if (/\d/.test(token)) return { base: leaf('mn', styled(this.number(token), this.font ?? 'normal')) };
    if (/\p{L}/u.test(token)) return { base: this.letter(token) };
    if (token === '-') return { base: leaf('mo', '−') };
    if ('()[]|'.includes(token)) return { base: fence(token, false) };
    if (token === '~') return { base: space(0.278) };
    if (token === '}' || token === '&') return null;
    return { base: leaf('mo', token) };
  }

  number(first) {
    let text = first;
    while (/^\d$/.test(this.next ?? '') || (/^[.,]$/.test(this.next ?? '') && /^\d$/.test(this.tokens[this.at + 1] ?? ''))) text += this.tokens[this.at++];
    return text;
  }

  letter(text) {
    if (!this.font) return leaf('mi', text);
    return leaf('mi', styled(text, this.font), this.font === 'normal' ? { mathvariant: 'normal' } : {});
  }

  command(name) {
    if (letters.has(name)) return { base: this.letter(letters.get(name)) };
    if (operators.has(name)) return { base: leaf('mo', operators.get(name)) };
    if (bigOperators.has(name)) return { base: leaf('mo', bigOperators.get(name), { movablelimits: String(!this.display) }), under: true };
    if (integrals.has(name)) return { base: leaf('mo', integrals.get(name)) };
    if (functions.has(name)) return { base: leaf('mi', name), spaced: true };
    if (limits.has(name)) return { base: leaf('mo', limits.get(name), { movablelimits: String(!this.display), rspace: '0', lspace: '0' }), under: true, spaced: true };
    if (delimiters.has(name)) return { base: fence(delimiters.get(name), false) };
    if (accents.has(name)) return { base: node('mover', [this.argument(), leaf('mo', accents.get(name), { stretchy: String(/^(wide|over)/.test(name)) })], { accent: 'true' }), under: name === 'overbrace' };
    if (accentsBelow.has(name)) return { base: node('munder', [this.argument(), leaf('mo', accentsBelow.get(name), { stretchy: 'true' })]), under: name === 'underbrace' };
    if (spaces.has(name)) return { base: space(spaces.get(name)) };
    if (fonts.has(name)) return { base: this.inFont(fonts.get(name)) };
    if (ignored.has(name)) return null;
    return this[`_${name.replace('*', '')}`]?.() ?? { base: leaf('mtext', `\\${name}`, { class: 'math-unknown' }) };
  }

  inFont(font) {
    const before = this.font;
    this.font = font;
    const base = this.argument();
    this.font = before;
    return base;
  }

  // Commands with arguments, by their names.
  _frac() { return { base: node('mfrac', [this.argument(), this.argument()]) }; }
  _dfrac() { return this._frac(); }
  _tfrac() { return this._frac(); }
  _cfrac() { return this._frac(); }
  _binom() { return { base: row([fence('(', true), node('mfrac', [this.argument(), this.argument()], { linethickness: '0' }), fence(')', true)]) }; }
  _dbinom() { return this._binom(); }
  _tbinom() { return this._binom(); }
  _sqrt() {
    this.skipBlanks();
    if (this.next !== '[') return { base: node('msqrt', [this.argument()]) };
    this.at += 1;
    const degree = row(this.list(']'));
    this.at += 1;
    return { base: node('mroot', [this.argument(), degree]) };
  }
  _text() { return { base: leaf('mtext', this.raw().replace(/^ | $/g, '\u00a0')) }; }
  _textrm() { return this._text(); }
  _textnormal() { return this._text(); }
  _mbox() { return this._text(); }
  _textit() { return this._text(); }
  _textsf() { return this._text(); }
  _textbf() { return { base: leaf('mtext', styled(this.raw(), 'bold')) }; }
  _texttt() { return { base: leaf('mtext', styled(this.raw(), 'mono')) }; }
  _operatorname() { return { base: leaf('mi', this.raw(), { mathvariant: 'normal' }), spaced: true }; }
  _boxed() { return { base: node('mrow', [this.argument()], { class: 'math-boxed' }) }; }
  _phantom() { return { base: node('mphantom', [this.argument()]) }; }
  _overset() { const above = this.argument(); return { base: node('mover', [this.argument(), above]) }; }
  _stackrel() { return this._overset(); }
  _underset() { const below = this.argument(); return { base: node('munder', [this.argument(), below]) }; }
  _xrightarrow() { return { base: node('mover', [leaf('mo', '→', { stretchy: 'true' }), this.argument()]) }; }
  _xleftarrow() { return { base: node('mover', [leaf('mo', '←', { stretchy: 'true' }), this.argument()]) }; }
  _substack() { this.skipBlanks(); this.at += 1; return { base: this.table('}', '') }; }
  _mathop() { return { base: this.argument(), under: true }; }
  _mathbin() { return { base: this.argument() }; }
  _mathrel() { return { base: this.argument() }; }
  _color() { this.raw(); return null; }
  _textcolor() { this.raw(); return { base: this.argument() }; }
  _label() { this.raw(); return null; }
  _tag() { return { base: row([space(2), leaf('mtext', `(${this.raw()})`)]) }; }
  _bmod() { return { base: leaf('mo', 'mod', { lspace: '0.222em', rspace: '0.222em' }) }; }
  _pmod() { return { base: row([space(0.444), fence('(', false), leaf('mi', 'mod'), space(0.333), this.argument(), fence(')', false)]) }; }
  _not() {
    const inner = this.argument();
    return { base: inner.text ? { ...inner, text: `${inner.text}\u0338` } : inner };
  }
  _middle() { return { base: fence(this.delimiter(), true) }; }

  delimiter() {
    this.skipBlanks();
    const token = this.tokens[this.at++] ?? '.';
    if (token === '.') return '';
    return token[0] === '\\' ? delimiters.get(token.slice(1)) ?? operators.get(token.slice(1)) ?? token : token === '<' ? '⟨' : token === '>' ? '⟩' : token;
  }

  _left() {
    const open = this.delimiter(), inner = this.list('\\right');
    this.at += 1;
    const close = this.delimiter();
    return { base: node('mrow', [...(open ? [fence(open, true)] : []), ...inner, ...(close ? [fence(close, true)] : [])]) };
  }

  _begin() {
    const name = this.raw().replace('*', ''), [open, close, layout = ''] = environments[name] ?? ['', ''];
    if (name === 'array' || name.startsWith('aligned') || name.startsWith('alignat')) { this.skipBlanks(); if (this.next === '{') this.raw(); }
    const table = this.table('\\end', layout);
    this.raw();
    return { base: open || close ? node('mrow', [...(open ? [fence(open, true)] : []), table, ...(close ? [fence(close, true)] : [])]) : table };
  }

  /** Rows and cells up to `end`, which is taken. */
  table(end, layout) {
    const rows = [[]];
    for (;;) {
      const cell = this.list('&', '\\\\', '\\cr', '\\hline', end);
      const token = this.tokens[this.at++];
      if (token === '\\hline') { this.tokens.splice(this.at - 1, 1); this.at -= 1; rows.at(-1).pending = [...(rows.at(-1).pending ?? []), ...cell]; continue; }
      rows.at(-1).push(node('mtd', [...(rows.at(-1).pending ?? []), ...cell]));
      rows.at(-1).pending = null;
      if (token === undefined || token === end) break;
      if (token === '&') continue;
      rows.push([]);
      // As in \\[2pt].
      if (this.next === '[') while (this.next !== undefined && this.tokens[this.at++] !== ']');
    }
    const last = rows.at(-1);
    if (rows.length > 1 && last.every((cell) => cell.children.length === 0)) rows.pop();
    return node('mtable', rows.map((cells) => node('mtr', cells)), layout ? { class: layout } : {});
  }
}

/** The formula as a tree; null if it is too long or nested too deeply, and so shown as text. */
export function parseMath(text, display = false) {
  if (text.length > MAX_LENGTH) return null;
  try {
    const parser = new MathParser(text, display), nodes = [];
    while (parser.at < parser.tokens.length) {
      nodes.push(...parser.list());
    }
    return node('math', [node('mrow', nodes)], { display: display ? 'block' : 'inline', alttext: text.trim() });
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
