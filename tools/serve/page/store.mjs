// The conversations, in localStorage under cria.chat.v1: { version: 1, conversations: [{ id, title,
// created, updated, from, messages }] }. A message is { role: 'user' | 'assistant', content, … },
// perhaps with other versions of it and of the messages after it (versions.mjs). Other tabs write
// there, too, so their changes are read before writing.
import { itemKeys, readItem, writeItem } from './storage.mjs';

const STORE_KEY = 'cria.chat.v1';
const ASIDE_KEY = 'cria.chat.v1.damaged.';
const MAX_ASIDE = 3;  // damaged stores that are kept
const MAX_VERSION_DEPTH = 100;
const messageStates = ['done', 'stopped', 'error'];

const isText = (value) => typeof value === 'string';
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

export function newId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * Returns the versions of a message: lists of messages, and null for the shown one. Returns
 * undefined if they are damaged or nested too deeply.
 */
function checkedVersions(value, depth) {
  if (!Array.isArray(value) || depth > MAX_VERSION_DEPTH || value.filter((version) => version === null).length !== 1) return undefined;
  const versions = value.map((version) => (version === null ? null : Array.isArray(version) ? version.map((message) => checkedMessage(message, depth + 1)) : []));
  return versions.every((version) => version === null || (version.length > 0 && !version.includes(null))) ? versions : undefined;
}

/** Returns a message with known fields, or null if it is invalid. */
function checkedMessage(value, depth = 0) {
  if (!isObject(value) || !['user', 'assistant'].includes(value.role) || !isText(value.content)) return null;
  const message = { role: value.role, content: value.content };
  const versions = checkedVersions(value.versions, depth);
  if (versions) message.versions = versions;
  if (Array.isArray(value.files)) message.files = value.files.filter((file) => isObject(file) && isText(file.name) && isText(file.text)).map(({ name, text }) => ({ name, text }));
  if (value.role === 'user') return message;
  // A tab that was closed left it streaming.
  message.state = messageStates.includes(value.state) ? value.state : 'stopped';
  for (const name of ['reasoning', 'finish', 'stats']) if (isText(value[name])) message[name] = value[name];
  if (isObject(value.error) && isText(value.error.message)) {
    message.error = Object.fromEntries(['message', 'detail', 'code'].filter((name) => isText(value.error[name])).map((name) => [name, value.error[name]]));
  }
  if (Array.isArray(value.calls)) {
    message.calls = value.calls.filter((call) => isObject(call) && isText(call.name) && isText(call.arguments)).map((call) => ({ name: call.name, arguments: call.arguments }));
  }
  return message;
}

function checkedConversation(value) {
  if (!isObject(value) || !isText(value.id) || !/^[\w-]{1,64}$/.test(value.id) || !Array.isArray(value.messages)) return null;
  const messages = value.messages.map((message) => checkedMessage(message));
  if (messages.includes(null)) return null;
  const time = (given) => (Number.isFinite(given) ? given : Date.now());
  const from = Number.isInteger(value.from) && value.from > 0 && value.from < messages.length ? value.from : 0;
  const conversation = { id: value.id, title: isText(value.title) ? value.title.slice(0, 200) : titleOf(messages), created: time(value.created), updated: time(value.updated), from, messages };
  for (const name of ['system', 'model']) if (isText(value[name])) conversation[name] = value[name];
  return conversation;
}

/** Reads a store or an exported file: { conversations, damaged }; what is whole is kept. */
export function readConversations(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return { conversations: [], damaged: true };
  }
  if (!isObject(value) || value.version !== 1 || !Array.isArray(value.conversations)) return { conversations: [], damaged: true };
  const conversations = value.conversations.map(checkedConversation);
  return { conversations: conversations.filter((one) => one !== null), damaged: conversations.includes(null) };
}

export function titleOf(messages) {
  const question = messages.find((message) => message.role === 'user');
  const words = (question?.content || question?.files?.[0]?.name || '').trim().replace(/\s+/g, ' ');
  return words.length > 60 ? `${words.slice(0, 59).trimEnd()}…` : words || 'New chat';
}

/**
 * `ondamage` receives a damaged text and whether it was set aside. `onfull` is called if a change
 * could not be stored, `onchange` after a change by another tab. `isBusy(id)` is true while an
 * answer is being written here; changes of that conversation by another tab are then ignored.
 */
export class Store {
  constructor({ ondamage, onfull, onchange, isBusy }) {
    Object.assign(this, { ondamage, onfull, isBusy });
    this.conversations = new Map();
    this.text = null;       // text last read or written
    this.unsaved = false;   // something is in memory only
    this.read();
    addEventListener('storage', (event) => {
      if (event.key !== STORE_KEY && event.key !== null) return;
      this.read();
      onchange();
    });
  }

  /** Newest first. */
  list() {
    return [...this.conversations.values()].sort((a, b) => b.updated - a.updated);
  }

  get(id) {
    return this.conversations.get(id) ?? null;
  }

  /** Takes over what is stored. A conversation that we hold keeps being the same object. */
  read() {
    const text = readItem('local', STORE_KEY);
    if (text === this.text) return;
    this.text = text;
    const { conversations, damaged } = text === null ? { conversations: [], damaged: false } : readConversations(text);
    const kept = new Map();
    for (const one of conversations) {
      const held = this.conversations.get(one.id);
      if (held && held.updated < one.updated && !this.isBusy(one.id)) Object.assign(held, one);
      // A new name does not make it newer.
      else if (held && held.updated === one.updated && !this.unsaved) held.title = one.title;
      kept.set(one.id, held ?? one);
    }
    if (this.unsaved) for (const [id, held] of this.conversations) if (!kept.has(id)) kept.set(id, held);
    this.conversations = kept;
    if (damaged) this.setAside(text);
  }

  /** Keeps a damaged store under a key of its own; what was whole in it takes its place. */
  setAside(text) {
    const older = itemKeys('local', ASIDE_KEY);
    for (const key of older.slice(0, Math.max(0, older.length - MAX_ASIDE + 1))) writeItem('local', key, null);
    // Write once: otherwise another tab could see an empty store. Write first, as both may not fit.
    if (this.conversations.size > 0) this.write();
    else {
      writeItem('local', STORE_KEY, null);
      this.text = null;
    }
    this.ondamage(text, writeItem('local', ASIDE_KEY + new Date().toISOString(), text));
  }

  write() {
    const text = JSON.stringify({ version: 1, conversations: [...this.conversations.values()] });
    this.unsaved = !writeItem('local', STORE_KEY, text);
    if (this.unsaved) this.onfull();
    else this.text = text;
  }

  save(conversation) {
    this.read();
    this.conversations.set(conversation.id, conversation);
    this.write();
  }

  remove(id) {
    this.read();
    this.conversations.delete(id);
    this.write();
  }

  exported() {
    this.read();
    return JSON.stringify({ version: 1, conversations: this.list() }, null, 1);
  }

  /**
   * Adds the conversations of an exported file and keeps existing ones. Returns the number of new
   * ones, or null for an invalid file.
   */
  importFrom(text) {
    const { conversations, damaged } = readConversations(text);
    if (damaged && conversations.length === 0) return null;
    this.read();
    let added = 0;
    for (const one of conversations) {
      const here = this.conversations.get(one.id);
      if (here && JSON.stringify(checkedConversation(here).messages) === JSON.stringify(one.messages)) continue;
      if (here) one.id = newId();
      this.conversations.set(one.id, one);
      added += 1;
    }
    this.write();
    return added;
  }
}
