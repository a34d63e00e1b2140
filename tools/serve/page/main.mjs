// The page: what its parts tell each other.
import { Asking } from './ask.mjs';
import { Composer } from './composer.mjs';
import { announce, byId, element, icon, isComposing, toast } from './dom.mjs';
import { Settings } from './settings.mjs';
import { Sidebar } from './sidebar.mjs';
import { newId, Store, titleOf } from './store.mjs';
import { fetchDefaults, fetchModels } from './stream.mjs';
import { Talk } from './talk.mjs';
import { toggleTheme } from './theme.mjs';
import { addVersion, showVersion } from './versions.mjs';

const STORAGE_FULL = 'The browser’s storage is full: this is not saved. Export or delete conversations.';
const LOADING_PAUSE = 2000;  // ms between two looks at a server that still loads its model
const exampleQuestions = ['What is the capital of Norway?', 'Tell me a short story about a dragon.', 'How many legs does a spider have?', 'Count from 1 to 10.'];

/** The conversation as Markdown, as it is shown. */
function asMarkdown({ title, messages }) {
  return `# ${title}\n${messages.filter(({ content }) => content).map(({ role, content }) => `\n## ${role === 'user' ? 'Question' : 'Answer'}\n\n${content.trim()}\n`).join('')}`;
}

function download(name, text, type = 'application/json') {
  const link = element('a', { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

class ChatPage {
  constructor() {
    this.models = [];
    this.draft = {};            // system message and model for the next new conversation
    this.conversation = null;   // null: a new one, without a message yet
    this.running = new Map();   // id of a conversation → the Asking that writes its answer
    this.store = new Store({
      ondamage: (text, kept) => toast(`Saved conversations could not be read. ${kept ? 'They were set aside.' : 'There is no room to set them aside.'}`,
        { action: 'Download them', act: () => download('cria-damaged.json', text), seconds: 60 }),
      onfull: () => toast(STORAGE_FULL, { seconds: 20 }),
      onchange: () => this.storeChanged(),
      isBusy: (id) => this.running.has(id),
    });
    this.settings = new Settings({ onkey: () => this.findModel(), onsystem: (text) => this.choose('system', text.trim() ? text : undefined) });
    this.talk = new Talk({
      edit: (message, text) => this.edit(message, text),
      regenerate: () => this.answerAgain(),
      goOn: () => this.ask(this.conversation.messages.at(-1)),
      showVersion: (message, number) => this.showVersion(message, number),
      retry: () => this.answerAgain(),
      openSettings: () => this.settings.open('setting-api-key'),
      shorten: () => this.shorten(),
    });
    this.sidebar = new Sidebar({
      open: (id) => this.go(id),
      rename: (conversation, title) => this.rename(conversation, title),
      remove: (conversation) => this.remove(conversation),
    });
    this.composer = new Composer({ onsend: (text, files) => this.send(text, files), onstop: () => this.stop() });
    this.dress();
    this.listen();
    this.open(location.hash.slice(1));
    this.composer.focus();
    this.findModel();
  }

  dress() {
    byId('new-chat').prepend(icon('plus'));
    byId('settings-open').prepend(icon('settings'));
    byId('settings-close').append(icon('close'));
    byId('export-markdown').append(icon('download'));
    byId('theme-toggle').append(icon('sun'), icon('moon'));
    byId('theme-toggle').setAttribute('aria-label', 'Dark or light');
    byId('theme-toggle').title = 'Dark or light';
    byId('examples').append(...exampleQuestions.map((text) => element('li', {}, element('button', { type: 'button', class: 'example', testid: 'example', text, onclick: () => this.send(text) }))));
  }

  listen() {
    byId('new-chat').addEventListener('click', () => this.go(''));
    byId('skip').addEventListener('click', (event) => {
      event.preventDefault();
      byId('prompt').focus();
    });
    byId('theme-toggle').addEventListener('click', toggleTheme);
    byId('export').addEventListener('click', () => download(`cria-conversations-${new Date().toISOString().slice(0, 10)}.json`, this.store.exported()));
    byId('import').addEventListener('click', () => byId('import-file').click());
    byId('import-file').addEventListener('change', (event) => this.importFile(event.target));
    addEventListener('hashchange', () => this.open(location.hash.slice(1)));
    byId('export-markdown').addEventListener('click', () => download(`${this.conversation.title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '') || 'chat'}.md`, asMarkdown(this.conversation), 'text/markdown'));
    byId('model-choice').addEventListener('change', (event) => this.choose('model', event.target.value));
    addEventListener('keydown', (event) => this.shortcut(event));
    addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && !isComposing(event) && !event.defaultPrevented && !byId('settings').open) this.stop();
    });
    // An unfinished answer ends with the page, and is saved up to there.
    addEventListener('pagehide', () => {
      for (const asking of this.running.values()) {
        asking.stop();
        asking.message.state = 'stopped';
        this.store.save(asking.conversation);
      }
    });
  }

  /** The keys of the list in the settings that have no other place. */
  shortcut(event) {
    if (isComposing(event) || byId('settings').open) return;
    const control = event.ctrlKey || event.metaKey, writing = event.target.closest('input, textarea, select');
    const act = { 'c-k': () => byId('search').focus(), 'c-,': () => this.settings.open(), 'cs-o': () => this.go(''), '/': () => byId('prompt').focus() }[
      `${control ? 'c' : ''}${event.shiftKey && control ? 's' : ''}${control ? '-' : ''}${event.key.toLowerCase()}`];
    if (!act || (!control && writing)) return;
    event.preventDefault();
    if (event.key.toLowerCase() === 'k') this.sidebar.setOpen(true);
    act();
  }

  /** The model that answers here: the one chosen, or the first. */
  get model() {
    const chosen = (this.conversation ?? this.draft).model;
    return this.models.find(({ id }) => id === chosen) ?? this.models[0] ?? null;
  }

  /** Sets the conversation's own `system` or `model`. */
  choose(name, value) {
    const place = this.conversation ?? this.draft;
    if (value === undefined) delete place[name];
    else place[name] = value;
    if (this.conversation) this.store.save(this.conversation);
    this.showModel();
    if (name === 'model') this.showDefaults();
  }

  showModel() {
    const { model, models } = this;
    byId('model').textContent = model?.id ?? '';
    byId('model').hidden = models.length > 1;
    byId('model-choice').hidden = models.length < 2;
    byId('model-choice').replaceChildren(...models.map(({ id }) => element('option', { value: id, text: id, selected: id === model.id })));
    if (model) byId('welcome-model').textContent = `${model.id} answers. What you write goes to this server and nowhere else.`;
  }

  async showDefaults() {
    const name = this.models.length > 1 ? this.model.id : undefined;
    this.settings.showDefaults(await fetchDefaults(this.settings.key, name));
  }

  /** Asks what models there are, until one is loaded. */
  async findModel() {
    clearTimeout(this.look);
    try {
      this.models = await fetchModels(this.settings.key);
      this.showModel();
      await this.showDefaults();
    } catch (error) {
      byId('welcome-model').textContent = error.message;
      if (error.code === 'loading') this.look = setTimeout(() => this.findModel(), LOADING_PAUSE);
    }
  }

  /** Conversations have addresses: #id. */
  go(id) {
    this.sidebar.setOpen(false);
    if (location.hash.slice(1) === id) this.open(id);
    else if (id) location.hash = id;
    else {
      history.pushState(null, '', location.pathname + location.search);
      this.open('');
    }
    this.composer.focus();
  }

  open(id) {
    this.conversation = this.store.get(id);
    this.talk.show(this.conversation);
    this.showState();
  }

  /** Updates everything around the messages: title, list, button, figures. */
  showState() {
    const title = this.conversation?.title ?? 'New chat';
    byId('title').textContent = title;
    document.title = this.conversation ? `${title} – cria` : 'cria';
    this.sidebar.show(this.store.list(), this.conversation?.id, this.running);
    this.composer.setRunning(this.running.has(this.conversation?.id));
    this.settings.showSystem((this.conversation ?? this.draft).system ?? '');
    byId('export-markdown').hidden = !this.conversation;
    this.showModel();
    this.showStats();
  }

  showStats() {
    byId('stats').textContent = this.conversation?.messages.at(-1)?.stats ?? '';
  }

  /**
   * Reports an action. Only one notice is shown at a time, so it also reports that storing failed.
   */
  told(text, more = {}) {
    if (this.store.unsaved) toast(`${text} ${STORAGE_FULL}`, { ...more, seconds: 20 });
    else toast(text, more);
  }

  /** A conversation was changed here. */
  changed(conversation) {
    this.store.save(conversation);
    this.showState();
  }

  storeChanged() {
    const id = this.conversation?.id;
    if (id && !this.store.get(id) && !this.running.has(id)) this.conversation = null;
    if (!this.talk.shows(this.conversation)) this.talk.show(this.conversation);
    this.showState();
  }

  send(text, files = []) {
    if (this.running.has(this.conversation?.id)) return;
    if (!this.conversation) {
      const now = Date.now();
      this.conversation = { id: newId(), title: titleOf([{ role: 'user', content: text, files }]), created: now, updated: now, from: 0, messages: [], ...this.draft };
      this.draft = {};
      this.talk.show(this.conversation);
      history.replaceState(null, '', `#${this.conversation.id}`);
    }
    this.conversation.messages.push({ role: 'user', content: text, ...(files.length ? { files } : {}) });
    this.ask();
  }

  /** Has the model answer the conversation as it stands, or continue `message`, its last answer. */
  ask(message = null) {
    const { conversation } = this;
    if (this.running.has(conversation.id)) return;
    if (message) message.state = 'streaming';
    else conversation.messages.push(message = { role: 'assistant', content: '', state: 'streaming' });
    delete message.finish;
    conversation.updated = Date.now();
    const asking = new Asking(conversation, message, {
      settings: this.settings,
      model: this.model,
      onchange: () => {
        if (this.conversation !== conversation) return;
        this.talk.grow();
        this.showStats();
      },
      onend: () => this.answered(asking),
    });
    this.running.set(conversation.id, asking);
    this.talk.following = true;
    this.talk.sync();
    this.talk.toEnd();
    this.changed(conversation);
    this.composer.focus();
    asking.run();
  }

  answered(asking) {
    const { conversation, message } = asking;
    if (this.running.get(conversation.id) !== asking) return;  // its question was edited meanwhile
    this.running.delete(conversation.id);
    conversation.updated = Date.now();
    if (this.store.get(conversation.id)) this.store.save(conversation);
    if (this.conversation === conversation) this.talk.end();
    this.showState();
    announce(message.state === 'done' ? 'The answer is complete.' : message.state === 'stopped' ? 'Stopped.' : '');
    if (this.models.length === 0) this.findModel();
  }

  stop() {
    this.running.get(this.conversation?.id)?.stop();
  }

  /** The last answer is given anew; the older one stays as a version, unless it is empty. */
  answerAgain() {
    const { conversation } = this, { messages } = conversation;
    if (this.running.has(conversation.id)) return;
    const last = messages.at(-1);
    if (last.role !== 'assistant') return this.ask();
    if (!last.versions && (!last.content || last.state === 'error')) {
      messages.pop();
      return this.ask();
    }
    return this.change(messages.length - 1, [{ role: 'assistant', content: '', state: 'streaming' }]);
  }

  /** Asks a question anew with `text`, or gives an answer that text. The older version is kept. */
  edit(message, text) {
    const at = this.conversation.messages.indexOf(message);
    const { role, files } = message;
    this.change(at, [role === 'user' ? { role, content: text, ...(files ? { files } : {}) } : { role, content: text, state: 'done' }]);
  }

  /**
   * Replaces the messages from `at` on by `tail` and keeps them as a version. The model answers a
   * question or fills an empty answer.
   */
  change(at, tail) {
    const { conversation } = this;
    this.halt(conversation);
    conversation.messages = addVersion(conversation.messages, at, tail);
    conversation.from = Math.min(conversation.from, at);
    this.talk.sync();
    const [first] = tail;
    if (first.role === 'user') this.ask();
    else if (first.state === 'streaming') this.ask(first);
    else this.changed(conversation);
  }

  showVersion(message, number) {
    const { conversation } = this;
    const at = conversation.messages.indexOf(message);
    this.halt(conversation);
    conversation.messages = showVersion(conversation.messages, at, number);
    conversation.from = Math.min(conversation.from, at);
    conversation.updated = Date.now();
    this.talk.sync();
    this.changed(conversation);
  }

  /** Stops the answer in progress for good, without reporting its end. */
  halt(conversation) {
    const asking = this.running.get(conversation.id);
    if (!asking) return;
    asking.stop();
    asking.message.state = 'stopped';
    this.running.delete(conversation.id);
  }

  /** Leaves the older half of what is sent out, up to a question. */
  shorten() {
    const { messages, from } = this.conversation;
    let first = Math.ceil((from + messages.length - 1) / 2);
    while (first < messages.length - 2 && messages[first].role !== 'user') first += 1;
    this.conversation.from = Math.min(first, messages.length - 2);
    this.answerAgain();
  }

  rename(conversation, title) {
    // Another tab may have deleted it.
    if (!this.store.get(conversation.id)) return this.showState();
    conversation.title = title;
    this.changed(conversation);
  }

  remove(conversation) {
    this.running.get(conversation.id)?.stop();
    this.store.remove(conversation.id);
    if (this.conversation?.id === conversation.id) this.go('');
    this.showState();
    byId('new-chat').focus();
    this.told(`“${conversation.title}” is deleted.`, { action: 'Undo', act: () => { this.changed(conversation); this.go(conversation.id); } });
  }

  async importFile(input) {
    const [file] = input.files;
    if (!file) return;
    const added = this.store.importFrom(await file.text());
    input.value = '';
    if (added === null) toast('This file holds no conversations of cria.');
    else this.told(added === 1 ? '1 conversation is new.' : `${added} conversations are new.`);
    this.showState();
  }
}

const startPage = () => new ChatPage();
if (document.readyState === 'loading') addEventListener('DOMContentLoaded', startPage);
else startPage();
