// Answers constrained by JSON schemas, checked by an independent validator (ajv): every complete
// answer must be valid. $SCHEMAS=all takes all schemas, otherwise every sixth.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import test from 'node:test';
import { startServer } from './page/server.mjs';
import { refused, schemas } from './schemas.mjs';

const Ajv = createRequire(new URL('page/package.json', import.meta.url))('ajv/dist/2020.js').default;
const formats = {
  date: /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/,
  time: /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i,
  uuid: /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i,
  ipv4: /^((25[0-5]|2[0-4]\d|1?\d?\d)(\.(?!$)|$)){4}$/,
  'date-time': (value) => formats.date.test(value.slice(0, 10)) && /[t ]/i.test(value[10]) && formats.time.test(value.slice(11)) && !Number.isNaN(Date.parse(value.slice(0, 10))),
};
const server = await startServer('-c', '1024');

async function answer(schema, sampling) {
  const response = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({
    messages: [{ role: 'user', content: 'Answer in JSON.' }], max_tokens: 300, response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } }, ...sampling }) });
  return { status: response.status, ...(await response.json()) };
}

const taken = schemas.filter((_, at) => process.env.SCHEMAS === 'all' || at % 6 === 0);

test('finished answers are valid', async (context) => {
  let finished = 0, cut = 0, tried = 0;
  for (const [name, schema] of taken) {
    const ajv = new Ajv({ strict: false, validateFormats: true, formats });
    const valid = ajv.compile(schema);
    for (const sampling of [{ temperature: 0 }, { temperature: 1.5, seed: 1 }, { temperature: 1.5, seed: 2 }]) {
      const { status, choices, error } = await answer(schema, sampling);
      assert.equal(status, 200, `${name}: ${error?.message}`);
      const [{ message: { content }, finish_reason: reason }] = choices;
      tried += 1;
      if (reason === 'length') cut += 1;
      else {
        assert.equal(reason, 'stop', name);
        assert.ok(valid(JSON.parse(content)), `${name}: ${content} ${ajv.errorsText(valid.errors)}`);
        finished += 1;
      }
    }
  }
  context.diagnostic(`${taken.length} schemas, ${tried} answers: ${finished} finished and valid, ${cut} cut at 300 tokens`);
  assert.ok(finished > 0.9 * tried, `${finished} of ${tried} answers were finished`);
});

test('what is not enforced is refused, with the place', async () => {
  for (const [name, schema, place] of refused) {
    const { status, error } = await answer(schema, { temperature: 0 });
    assert.deepEqual([status, error?.code, error?.param], [400, 'invalid_schema', 'response_format.json_schema.schema'], `${name}: ${error?.message}`);
    assert.ok(error.message.includes(place), `${name}: ${error.message}`);
  }
});
