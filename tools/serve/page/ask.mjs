// An answer in progress, from the question to the last chunk. It continues while another
// conversation is shown.
import { ChatError, streamAnswer } from './stream.mjs';

/** A question with its files before it, each in a block of code. */
function withFiles({ content, files = [] }) {
  const blocks = files.map(({ name, text }) => {
    const fence = '`'.repeat(Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length)) + 1);
    return `${name}:\n\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
  });
  return [...blocks, content].filter(Boolean).join('\n\n');
}

/**
 * Returns the messages to send: without failed and empty answers, with consecutive questions
 * joined.
 */
export function messagesToSend(conversation, system) {
  const sent = system ? [{ role: 'system', content: system }] : [];
  for (const message of conversation.messages.slice(conversation.from)) {
    const { role } = message, content = withFiles(message);
    if (role === 'assistant' && !content.trim()) continue;
    if (role === sent.at(-1)?.role) sent.at(-1).content += `\n\n${content}`;
    else sent.push({ role, content });
  }
  return sent;
}

/** Counts tokens and time; until the server tells the number, a chunk is taken for a token. */
class Pace {
  constructor() {
    this.first = this.last = 0;
    this.chunks = 0;
    this.usage = null;
    this.seed = null;
  }

  take(chunk, isText) {
    if (chunk.usage) this.usage = chunk.usage;
    if (Number.isInteger(chunk.seed)) this.seed = chunk.seed;
    if (!isText) return;
    this.last = performance.now();
    if (this.chunks === 0) this.first = this.last;
    this.chunks += 1;
  }

  /** "38.2 tokens/s · 45 tokens" and, once known, how much of the context is in use. */
  text(context) {
    if (this.chunks === 0) return '';
    const tokens = this.usage?.completion_tokens ?? this.chunks, seconds = (this.last - this.first) / 1000;
    const parts = [];
    if (tokens > 1 && seconds > 0) parts.push(`${((tokens - 1) / seconds).toFixed(tokens / seconds < 100 ? 1 : 0)} tokens/s`);
    parts.push(tokens === 1 ? '1 token' : `${tokens.toLocaleString('en')} tokens`);
    if (this.usage) parts.push(`${this.usage.total_tokens.toLocaleString('en')}${context ? ` of ${context.toLocaleString('en')}` : ''} in context`);
    if (this.seed !== null && this.usage) parts.push(`seed ${this.seed}`);
    return parts.join(' · ');
  }
}

function takeCalls(message, deltas) {
  message.calls ??= [];
  for (const { index, function: part } of deltas) {
    const call = (message.calls[index] ??= { name: '', arguments: '' });
    call.name += part?.name ?? '';
    call.arguments += part?.arguments ?? '';
  }
}

/**
 * Requests the answer `message`, the last of `conversation`, and continues what it already has.
 * Calls `onchange` for every piece and `onend` once.
 */
export class Asking {
  constructor(conversation, message, { settings, model, onchange, onend }) {
    Object.assign(this, { conversation, message, model, onchange, onend });
    this.abort = new AbortController();
    this.pace = new Pace();
    this.question = {
      ...(model ? { model: model.id } : {}),
      messages: messagesToSend({ ...conversation, messages: message.content ? conversation.messages : conversation.messages.slice(0, -1) }, conversation.system || settings.values.system),
      stream: true,
      stream_options: { include_usage: true },
      return_progress: true,
      ...(message.content ? { continue_final_message: true } : {}),
      ...settings.request(),
    };
    this.key = settings.key;
  }

  stop() {
    this.abort.abort();
  }

  take(chunk) {
    const { delta = {}, finish_reason: finish } = chunk.choices?.[0] ?? {};
    const { message } = this;
    message.progress = chunk.prompt_progress ?? (delta.content || delta.reasoning_content || delta.tool_calls ? undefined : message.progress);
    if (delta.content) message.content += delta.content;
    if (delta.reasoning_content) message.reasoning = (message.reasoning ?? '') + delta.reasoning_content;
    if (delta.tool_calls) takeCalls(message, delta.tool_calls);
    if (finish) message.finish = finish;
    this.pace.take(chunk, Boolean(delta.content || delta.reasoning_content || delta.tool_calls));
    message.stats = this.pace.text(this.model?.meta?.n_ctx);
  }

  async run() {
    const { message } = this;
    try {
      for await (const chunk of streamAnswer(this.question, { key: this.key, signal: this.abort.signal })) {
        if (this.abort.signal.aborted) break;
        this.take(chunk);
        this.onchange(this);
      }
      message.state = this.abort.signal.aborted ? 'stopped' : 'done';
    } catch (error) {
      if (this.abort.signal.aborted) {
        message.state = 'stopped';
      } else {
        const said = error instanceof ChatError ? error : new ChatError('Something went wrong in this page.', { detail: error.message });
        message.state = 'error';
        message.error = { message: said.message, detail: said.detail, code: said.code ?? '' };
      }
    }
    delete message.progress;
    this.onend(this);
  }
}
