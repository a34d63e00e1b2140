// JSON schemas of common kinds: [name, schema]. Refused schemas are listed separately, with the
// path that the error must name.

const object = (properties, more = {}) => ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false, ...more });
const array = (items, more = {}) => ({ type: 'array', items, maxItems: 4, ...more });
const text = (more = {}) => ({ type: 'string', maxLength: 16, ...more });
const integer = (minimum, maximum) => ({ type: 'integer', minimum, maximum });
const oneOfTexts = (...values) => ({ type: 'string', enum: values });

const scalars = [
  ['boolean', { type: 'boolean' }], ['null', { type: 'null' }], ['integer', { type: 'integer' }], ['number', { type: 'number' }], ['short text', text()], ['anything small', { anyOf: [{ type: 'null' }, { type: 'boolean' }] }],
  ['true', { enum: [true] }], ['const text', { const: 'yes' }], ['const number', { const: -1.5 }], ['const object', { const: { a: [1, null, 'x'] } }], ['const with escapes', { const: 'a"b\\c\nd\u00e9\u{1f999}' }],
  ['enum of kinds', { enum: ['a', 1, null, true, [1], { b: 2 }] }], ['enum of texts', oneOfTexts('red', 'green', 'blue')], ['enum, common beginnings', oneOfTexts('a', 'ab', 'abc', 'abd', 'b')], ['nullable', { type: ['integer', 'null'], minimum: 0, maximum: 99 }],
  ['types', { type: ['boolean', 'null', 'integer'] }], ['enum and type', { type: 'integer', enum: [1, 2, 3] }], ['text of exactly 3', { type: 'string', minLength: 3, maxLength: 3 }], ['text of 5 to 9', { type: 'string', minLength: 5, maxLength: 9 }], ['empty text', { type: 'string', maxLength: 0 }],
];
const ranges = [[0, 9], [1, 12], [10, 99], [0, 100], [-5, 5], [-100, -1], [0, 255], [1, 65535], [1900, 2100], [7, 7], [99, 101], [-1, 1000000], [123, 45678], [0, 9007199254740991]];
const integers = ranges.map(([low, high]) => [`integer ${low}..${high}`, integer(low, high)]);
const open = [
  ['at least', { type: 'integer', minimum: 10 }], ['at most', { type: 'integer', maximum: -3 }], ['above', { type: 'integer', exclusiveMinimum: 99 }], ['below', { type: 'integer', exclusiveMaximum: 0 }], ['between, exclusive', { type: 'integer', exclusiveMinimum: 1, exclusiveMaximum: 4 }],
  ['share', { type: 'number', minimum: 0, maximum: 1 }], ['temperature', { type: 'number', minimum: -273.15, maximum: 1000 }], ['positive', { type: 'number', exclusiveMinimum: 0 }], ['price', { type: 'number', minimum: 0.01, maximum: 99.99 }], ['number above', { type: 'number', exclusiveMinimum: 2.5, exclusiveMaximum: 3 }], ['small', { type: 'number', minimum: -0.5, maximum: -0.25 }],
];
const patternTexts = ['^[a-z]{3}$', '^[A-Z][a-z]{1,8}$', '^\\d{4}-\\d{2}-\\d{2}$', '^\\d{3}-\\d{4}$', '^(yes|no|maybe)$', '^[0-9a-f]{8}$', '^#[0-9A-Fa-f]{6}$', '^[A-Z]{2}\\d{2}$', '^\\+?[0-9]{6,12}$', '^[a-z]+(-[a-z]+){0,3}$', '^v\\d+\\.\\d+\\.\\d+$', '^[^ ]{1,8}$', '^(?:[01]\\d|2[0-3]):[0-5]\\d$',
  '^[\\w.]{1,8}@[a-z]{1,8}\\.(com|org)$', '^$', '^a?b*c+$', '^\\S{2,6}$', '^[äöüß]{1,4}$', '^(ab|cd){2}$', '^\\p{Lu}\\p{Ll}{0,5}$', '^[\\p{L}\\p{Nd} -]{1,99}$', '^[\\u0041-\\u0045]{2}$', '^x{0,3}$', '^"\\\\"$'];
const patterns = patternTexts.map((pattern) => [`pattern ${pattern}`, { type: 'string', pattern, maxLength: 24 }]);
const unanchored = [['contains', { type: 'string', pattern: 'ab', maxLength: 8 }], ['ends', { type: 'string', pattern: '\\d$', maxLength: 6 }], ['begins', { type: 'string', pattern: '^x', maxLength: 6 }], ['pattern and lengths', { type: 'string', pattern: '^[a-z ]*$', minLength: 4, maxLength: 7 }]];
const formats = ['date', 'time', 'date-time', 'uuid', 'ipv4', 'duration'].map((format) => [`format ${format}`, { type: 'string', format }]);
const lengths = [['format email, short', { type: 'string', format: 'email', maxLength: 12 }]];
const arrays = [
  ['two of', { type: 'array', items: { type: 'boolean' }, minItems: 2, maxItems: 2 }], ['up to three', array(oneOfTexts('a', 'b'), { maxItems: 3 })], ['one at least', array(integer(0, 9), { minItems: 1 })], ['none', { type: 'array', items: { type: 'integer' }, maxItems: 0 }], ['of arrays', array(array(integer(0, 1), { minItems: 2, maxItems: 2 }), { minItems: 1, maxItems: 3 })],
  ['tuple', { type: 'array', prefixItems: [text(), integer(0, 9), { type: 'boolean' }], items: false, minItems: 3 }], ['tuple and rest', { type: 'array', prefixItems: [oneOfTexts('x')], items: integer(0, 9), minItems: 1, maxItems: 4 }], ['short tuple', { type: 'array', prefixItems: [{ type: 'null' }, { type: 'null' }], items: false }], ['of objects', array(object({ id: integer(1, 99), ok: { type: 'boolean' } }), { minItems: 1, maxItems: 2 })],
  ['of nullable', array({ type: ['integer', 'null'], minimum: 0, maximum: 9 }, { minItems: 2 })], ['ten', { type: 'array', items: integer(0, 1), minItems: 10, maxItems: 10 }],
];
const objects = [
  ['empty', object({})], ['one', object({ name: text() })], ['two', object({ name: text(), age: integer(0, 120) })], ['optional', { ...object({ a: integer(0, 9), b: integer(0, 9), c: integer(0, 9) }), required: ['b'] }], ['all optional', { ...object({ a: { type: 'null' }, b: { type: 'null' } }), required: [] }],
  ['nested', object({ user: object({ name: text(), address: object({ city: text(), zip: text({ pattern: '^\\d{5}$' }) }) }) })], ['deep', object({ a: object({ b: object({ c: object({ d: object({ e: { const: 1 } }) }) }) }) })], ['typed extras', { type: 'object', properties: { a: { const: 1 } }, required: ['a'], additionalProperties: { type: 'boolean' } }],
  ['a record', { type: 'object', propertyNames: { type: 'string', maxLength: 3 }, additionalProperties: { type: 'boolean' } }], ['a record of enumerated names', { type: 'object', propertyNames: { enum: ['x', 'y'] }, additionalProperties: integer(0, 9), required: ['x', 'y'] }],
  ['by pattern', { type: 'object', patternProperties: { '^a': integer(0, 9), 'b$': { maximum: 5 } }, additionalProperties: { type: 'boolean' }, maxProperties: 2 }],
  ['only extras', { type: 'object', additionalProperties: integer(0, 9) }], ['odd names', object({ 'a b': { type: 'null' }, 'c"d': { type: 'null' }, 'é\n': { type: 'null' }, '': { type: 'null' } })], ['required without schema', { type: 'object', properties: { a: { type: 'null' } }, required: ['a', 'z'], additionalProperties: { type: 'boolean' } }],
  ['many', object(Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`field_${at}`, at % 2 ? { type: 'boolean' } : integer(0, at)])))], ['described', { $schema: 'https://json-schema.org/draft/2020-12/schema', $id: 'https://example.org/x', title: 'X', description: 'd', ...object({ a: { type: 'integer', title: 't', default: 3, examples: [1], description: 'd', deprecated: true, readOnly: true, minimum: 0, maximum: 9 } }) }],
];
const people = [
  ['weather call', object({ city: text(), unit: oneOfTexts('celsius', 'fahrenheit'), days: integer(1, 7) })], ['person', object({ name: text(), born: { type: 'string', format: 'date' }, email: { type: ['string', 'null'], maxLength: 10 }, tags: array(oneOfTexts('friend', 'family', 'work')) })], ['sentiment', object({ sentiment: oneOfTexts('positive', 'neutral', 'negative'), confidence: { type: 'number', minimum: 0, maximum: 1 } })],
  ['invoice', object({ number: text({ pattern: '^INV-\\d{4}$' }), lines: array(object({ item: text(), count: integer(1, 99), price: { type: 'number', minimum: 0, maximum: 1000 } }), { minItems: 1, maxItems: 2 }), paid: { type: 'boolean' } })], ['calendar', object({ title: text(), start: { type: 'string', format: 'date-time' }, minutes: integer(5, 480), people: array(text({ maxLength: 8 }), { maxItems: 2 }) })],
  ['steps', object({ steps: array(object({ explanation: text(), output: text() }), { minItems: 1, maxItems: 2 }), answer: text() })], ['movie', object({ title: text(), year: integer(1888, 2100), genres: array(oneOfTexts('drama', 'comedy', 'horror'), { minItems: 1, maxItems: 3 }), rating: { type: ['number', 'null'], minimum: 0, maximum: 10 } })], ['recipe', object({ name: text(), servings: integer(1, 12), ingredients: array(object({ what: text(), grams: integer(1, 2000) }), { minItems: 1, maxItems: 3 }) })],
  ['address', object({ street: text(), number: integer(1, 999), country: text({ pattern: '^[A-Z]{2}$' }) })], ['log line', object({ level: oneOfTexts('debug', 'info', 'warning', 'error'), at: { type: 'string', format: 'time' }, from: { type: 'string', format: 'ipv4' }, id: { type: 'string', format: 'uuid' } })], ['point', { type: 'array', prefixItems: [{ type: 'number', minimum: -180, maximum: 180 }, { type: 'number', minimum: -90, maximum: 90 }], items: false, minItems: 2 }],
  ['colour', object({ hex: text({ pattern: '^#[0-9a-f]{6}$' }), rgb: { type: 'array', items: integer(0, 255), minItems: 3, maxItems: 3 } })], ['quiz', object({ question: text(), choices: { type: 'array', items: text({ maxLength: 8 }), minItems: 4, maxItems: 4 }, right: integer(0, 3) })], ['search', object({ query: text(), filters: { ...object({ from: { type: 'string', format: 'date' }, language: oneOfTexts('en', 'de', 'fr') }), required: [] }, page: { type: 'integer', minimum: 1, maximum: 50 } })],
];
const alternatives = [
  ['integer or text', { anyOf: [integer(0, 9), text()] }], ['objects apart', { anyOf: [object({ kind: { const: 'a' }, x: integer(0, 9) }), object({ kind: { const: 'b' }, y: text() })] }], ['one of, with a discriminator', { discriminator: { propertyName: 'type' }, oneOf: [object({ type: { const: 'a' } }), object({ type: { const: 'b' } })] }], ['one of, by a tag', { oneOf: [object({ type: { const: 'circle' }, r: integer(1, 9) }), object({ type: { const: 'square' }, side: integer(1, 9) })] }], ['one of types', { oneOf: [{ type: 'boolean' }, { type: 'null' }, text()] }],
  ['all of objects', { allOf: [{ type: 'object', properties: { a: integer(0, 9) }, required: ['a'] }, { type: 'object', properties: { b: { type: 'boolean' } }, required: ['b'] }] }], ['all of bounds', { allOf: [{ type: 'integer', minimum: 3 }, { maximum: 7 }] }], ['all of lengths', { allOf: [{ type: 'string', minLength: 2 }, { maxLength: 5 }] }], ['any of, in an array', array({ anyOf: [{ type: 'null' }, object({ v: integer(0, 9) })] }, { minItems: 1, maxItems: 3 })],
  ['any of beside properties', { type: 'object', properties: { a: integer(0, 9), b: integer(0, 9) }, additionalProperties: false, anyOf: [{ required: ['a'] }, { required: ['b'] }] }], ['nested any of', { anyOf: [{ anyOf: [{ const: 1 }, { const: 2 }] }, { const: 3 }] }], ['optional by any of', object({ a: { anyOf: [text(), { type: 'null' }] } })],
];
const references = [
  ['$defs', { ...object({ a: { $ref: '#/$defs/small' }, b: { $ref: '#/$defs/small' } }), $defs: { small: integer(0, 9) } }], ['definitions', { $ref: '#/definitions/d', definitions: { d: object({ x: { type: 'boolean' } }) } }], ['a list', { $ref: '#/$defs/node', $defs: { node: { ...object({ value: integer(0, 9), next: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/node' }] } }) } } }],
  ['a tree', { ...object({ name: text({ maxLength: 4 }), children: { type: 'array', items: { $ref: '#' }, maxItems: 2 } }) }], ['an expression', { $ref: '#/$defs/e', $defs: { e: { anyOf: [integer(0, 9), object({ op: oneOfTexts('+', '*'), l: { $ref: '#/$defs/e' }, r: { $ref: '#/$defs/e' } })] } } }], ['mutual', { $ref: '#/$defs/a', $defs: { a: { ...object({ b: { $ref: '#/$defs/b' } }) }, b: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/a' }] } } }],
  ['chain', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/c' }, c: { const: 'end' } } }], ['escaped name', { $ref: '#/$defs/a~1b', $defs: { 'a/b': { const: 1 } } }], ['comments', { ...object({ text: text(), replies: { type: 'array', maxItems: 2, items: { $ref: '#/$defs/comment' } } }), $defs: { comment: object({ by: text({ maxLength: 6 }), replies: { type: 'array', maxItems: 1, items: { $ref: '#/$defs/comment' } } }) } }],
];
// All pairs of kinds of members, such as forms have.
const kinds = { flag: { type: 'boolean' }, count: integer(0, 50), name: text(), when: { type: 'string', format: 'date' }, code: text({ pattern: '^[A-Z]{3}$' }), tags: array(oneOfTexts('x', 'y')), share: { type: 'number', minimum: 0, maximum: 1 }, kind: oneOfTexts('one', 'two'), maybe: { type: ['integer', 'null'], minimum: 0, maximum: 9 }, inner: object({ z: integer(0, 3) }), point: { type: 'array', prefixItems: [integer(0, 9), integer(0, 9)], items: false, minItems: 2 } };
const names = Object.keys(kinds);
const pairs = names.flatMap((one, at) => names.slice(at + 1).map((other) => [`${one} and ${other}`, { ...object({ [one]: kinds[one], [other]: kinds[other] }), required: [other] }]));
const several = names.map((name) => [`several: ${name}`, array(kinds[name], { minItems: 1, maxItems: 2 })]);

export const schemas = [...scalars, ...integers, ...open, ...patterns, ...unanchored, ...formats, ...lengths, ...arrays, ...objects, ...people, ...alternatives, ...references, ...pairs, ...several];

/** [name, schema, the place that the message names]. */
export const refused = [
  ['not', object({ a: { not: { type: 'null' } } }), '/properties/a/not'], ['if', { type: 'integer', if: { const: 1 }, then: true }, '/if'], ['uniqueItems', { type: 'array', uniqueItems: true }, 'uniqueItems'],
  ['contains', object({ a: { type: 'array', contains: { const: 1 } } }), '/properties/a/contains'], ['dependentRequired', { type: 'object', dependentRequired: { a: ['b'] } }, '/dependentRequired'], ['minProperties', { type: 'object', minProperties: 2 }, 'minProperties'], ['unevaluatedProperties', { type: 'object', unevaluatedProperties: false }, '/unevaluatedProperties'],
  ['a foreign $ref', object({ a: { $ref: 'https://example.org/schema' } }), '/properties/a'], ['a $ref to nothing', { $ref: '#/$defs/none' }, '$ref'], ['look-behind', { type: 'string', pattern: '^a(?<=a)b$' }, '/pattern'], ['back reference', { type: 'string', pattern: '^(a)\\1$' }, '/pattern'], ['a bad pattern', { type: 'string', pattern: '[' }, '/pattern'], ['an unknown type', object({ a: { type: 'text' } }), '/properties/a/type'],
  ['bounds that cross', object({ a: integer(5, 4) }), '/properties/a'], ['lengths that cross', { type: 'string', minLength: 5, maxLength: 4 }, ''], ['an empty enum', { enum: [] }, '/enum'], ['a schema that is a number', object({ a: 5 }), '/properties/a'], ['a $ref to itself', { $ref: '#' }, ''], ['items that cross', { type: 'array', minItems: 3, maxItems: 2 }, ''],
];
