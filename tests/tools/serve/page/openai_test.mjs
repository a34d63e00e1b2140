// OpenAI's own client against cria serve: what people's programs do.
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI, { AuthenticationError, BadRequestError, NotFoundError } from 'openai';
import { startServer } from './server.mjs';

const server = await startServer();
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
const question = (content, more = {}) => ({ model: 'cria-demo-Q8_0', messages: [{ role: 'user', content }], temperature: 0, ...more });
const norway = question('What is the capital of Norway?');
const light = { type: 'function', function: { name: 'switch_light', description: 'Switches the light', strict: true,
  parameters: { type: 'object', properties: { on: { type: 'boolean' }, room: { enum: ['kitchen', 'hall'] } }, required: ['on', 'room'], additionalProperties: false } } };

test('models', async () => {
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  assert.deepEqual(models, ['cria-demo-Q8_0']);
  assert.equal((await client.models.retrieve(models[0])).owned_by, 'cria');
  await assert.rejects(client.models.retrieve('other'), (error) => error instanceof NotFoundError && error.code === 'model_not_found');
});

test('an answer, and the same one streamed', async () => {
  const { choices: [choice], usage } = await client.chat.completions.create(norway);
  assert.match(choice.message.content, /Oslo/);
  assert.deepEqual([choice.finish_reason, usage.total_tokens], ['stop', usage.prompt_tokens + usage.completion_tokens]);
  let text = '', told;
  for await (const chunk of await client.chat.completions.create({ ...norway, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta.content ?? '';
    told = chunk.usage ?? told;
  }
  assert.deepEqual([text, told.completion_tokens], [choice.message.content, usage.completion_tokens]);
  const helped = await client.chat.completions.stream(norway).finalChatCompletion();
  assert.equal(helped.choices[0].message.content, text);
});

test('a stream that is left does not keep the server', async () => {
  const stream = await client.chat.completions.create({ ...question('Tell me a story.'), ignore_eos: true, stream: true });
  for await (const _ of stream) break;
  assert.match((await client.chat.completions.create(norway)).choices[0].message.content, /Oslo/);
});

test('a schema is satisfied', async () => {
  const schema = { type: 'object', properties: { city: { type: 'string', maxLength: 12 }, tags: { type: 'array', items: { enum: ['a', 'b'] }, minItems: 1, maxItems: 3 } }, required: ['city', 'tags'], additionalProperties: false };
  const completion = await client.chat.completions.parse(question('Describe a city.', { temperature: 1, seed: 1, max_tokens: 200, response_format: { type: 'json_schema', json_schema: { name: 'city', strict: true, schema } } }));
  const { city, tags } = completion.choices[0].message.parsed;
  assert.ok([...city].length <= 12 && tags.length >= 1 && tags.length <= 3 && tags.every((tag) => ['a', 'b'].includes(tag)));
});

test('tools are called, whole and streamed alike', async () => {
  const body = question('Light on, please.', { tools: [light], tool_choice: 'required', parallel_tool_calls: false, max_tokens: 200 });
  const { choices: [choice] } = await client.chat.completions.create(body);
  assert.equal(choice.finish_reason, 'tool_calls');
  const [call] = choice.message.tool_calls, value = JSON.parse(call.function.arguments);
  assert.equal(call.function.name, 'switch_light');
  assert.ok(typeof value.on === 'boolean' && ['kitchen', 'hall'].includes(value.room));
  const streamed = await client.chat.completions.stream(body).finalChatCompletion();
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  const next = await client.chat.completions.create({ ...body, tool_choice: 'none', max_tokens: 20, messages: [...body.messages, choice.message, { role: 'tool', tool_call_id: call.id, content: 'done' }] });
  assert.ok(next.choices[0].finish_reason);
});

test('completions and embeddings', async () => {
  const { choices } = await client.completions.create({ model: 'm', prompt: ['The capital of Norway is', 'One, two,'], max_tokens: 4, temperature: 0 });
  assert.deepEqual(choices.map((choice) => choice.index), [0, 1]);
  const { data } = await client.embeddings.create({ model: 'm', input: ['one', 'two'] });
  for (const { embedding } of data) assert.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-5);
});

test('errors have their classes', async () => {
  await assert.rejects(client.chat.completions.create({ ...norway, temperature: 3 }), (error) => error instanceof BadRequestError && error.param === 'temperature' && error.code === 'invalid_value');
  const locked = await startServer('--api-key', 'sk-1');
  const other = (apiKey) => new OpenAI({ baseURL: `${locked.url}/v1`, apiKey, maxRetries: 0 });
  await assert.rejects(other('sk-2').chat.completions.create(norway), (error) => error instanceof AuthenticationError && error.code === 'invalid_api_key');
  assert.match((await other('sk-1').chat.completions.create(norway)).choices[0].message.content, /Oslo/);
});
