// Requests to the server: its models, and answers as streams of server-sent events. Errors become
// sentences.

/** An error as a sentence, with the server's `code` and `status`. */
export class ChatError extends Error {
  constructor(message, { code = null, status = 0, detail = '' } = {}) {
    super(message);
    Object.assign(this, { code, status, detail });
  }
}

const wordsOfCodes = {
  context_length_exceeded: 'This conversation has become longer than the model can read.',
  forbidden_host: 'The server does not answer under this address.',
  forbidden_origin: 'The server does not answer pages from this address.',
  invalid_api_key: 'The server asks for an API key, and the one given is not right or missing. It belongs in the settings.',
  loading: 'The model is still being loaded. Try again in a moment.',
  queue_full: 'Too many people are asking at once. Try again in a moment.',
  request_too_large: 'This conversation is larger than the server accepts.',
  shutting_down: 'The server is being stopped.',
  template_error: 'The model’s chat template does not take this conversation.',
  timeout: 'The server had no time for this question. Try again.',
};

function errorOf(error, status) {
  const detail = typeof error?.message === 'string' ? error.message : '';
  const words = wordsOfCodes[error?.code] ?? (status >= 500 || status === 0 ? 'The server failed to answer.' : 'The server refused the question.');
  return new ChatError(words, { code: error?.code ?? null, status, detail });
}

async function refused(response) {
  const text = await response.text().catch(() => '');
  try {
    return errorOf(JSON.parse(text).error, response.status);
  } catch {
    return new ChatError(`The server answered “${response.status} ${response.statusText}”.`, { status: response.status });
  }
}

async function request(path, { key, ...options }) {
  const headers = { ...(options.body ? { 'Content-Type': 'application/json' } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ChatError('The server cannot be reached. Is it still running, and are you online?', { code: 'unreachable' });
  }
  if (!response.ok) throw await refused(response);
  return response;
}

/** Returns what the server reports of a model or, without a name, of its default one; {} on errors. */
async function fetchProperties(key, model) {
  const path = model === undefined ? 'props' : `props?model=${encodeURIComponent(model)}`;
  try {
    return await (await request(path, { key })).json();
  } catch {
    return {};
  }
}

/** The models that answer, the default one first: [{ id, meta }]. */
export async function fetchModels(key) {
  const { data } = await (await request('v1/models', { key })).json();
  if (data.length < 2) return data;
  const { model_alias: standard } = await fetchProperties(key);
  return [...data.filter(({ id }) => id === standard), ...data.filter(({ id }) => id !== standard)];
}

/**
 * Returns the defaults for sampling as { name: value }; empty if the server does not report them.
 * `model` is its name, or undefined for the server's default one.
 */
export async function fetchDefaults(key, model) {
  return (await fetchProperties(key, model)).default_generation_settings?.params ?? {};
}

/** The data of the events in a body, comments left out. */
async function* eventData(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) if (line.startsWith('data:')) yield line.slice(5).trim();
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Yields the chunks of an answer. Throws a ChatError, also if the stream ends too soon, or an
 * AbortError.
 */
export async function* streamAnswer(question, { key, signal }) {
  const response = await request('v1/chat/completions', { key, signal, method: 'POST', body: JSON.stringify(question) });
  try {
    for await (const data of eventData(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw errorOf(chunk.error, 0);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof ChatError || error.name === 'AbortError') throw error;
    throw new ChatError('The connection broke off in the middle of the answer.', { code: 'broken', detail: error instanceof SyntaxError ? 'An event is not JSON.' : '' });
  }
  throw new ChatError('The connection broke off in the middle of the answer.', { code: 'broken' });
}
