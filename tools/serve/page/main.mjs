// The page: what its parts tell each other.
import { Asking } from './ask.mjs';
import { Composer } from './composer.mjs';
import { announce, byId, element, icon, isComposing, toast } from './dom.mjs';
import { Settings } from './settings.mjs';
import { Sidebar } from './sidebar.mjs';
import { newId, Store, titleOf } from './store.mjs';
import { fetchModel } from './stream.mjs';
import { Talk } from './talk.mjs';
import { toggleTheme } from './theme.mjs';

const STORAGE_FULL = 'The browser’s storage is full: this is not saved. Export or delete conversations.';
const LOADING_PAUSE = 2000;  // ms between two looks at a server that still loads its model
const exampleQuestions = ['What is the capital of Norway?', 'Tell me a short story about a dragon.', 'How many legs does a spider have?', 'Count from 1 to 10.'];

function download(name, text) {
  const link = element('a', { href: URL.createObjectURL(new Blob([text], { type: 'application/json' })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

class ChatPage {
  constructor() {
    this.model = null;
    this.conversation = null;   // null: a new one, without a message yet
    this.running = new Map();   // id of a conversation → the Asking that writes its answer
    this.store = new Store({
      ondamage: (text, kept) => toast(`Saved conversations could not be read. ${kept ? 'They were set aside.' : 'There is no room to set them aside.'}`,
        { action: 'Download them', act: () => download('cria-damaged.json', text), seconds: 60 }),
      onfull: () => toast(STORAGE_FULL, { seconds: 20 }),
      onchange: () => this.storeChanged(),
      isBusy: (id) => this.running.has(id),
    });
    this.settings = new Settings({ onkey: () => this.findModel() });
    this.talk = new Talk({
      edit: (message, text) => this.edit(message, text),
      regenerate: () => this.answerAgain(),
      retry: () => this.answerAgain(),
      openSettings: () => this.settings.open('setting-api-key'),
      shorten: () => this.shorten(),
    });
    this.sidebar = new Sidebar({
      open: (id) => this.go(id),
      rename: (conversation, title) => this.rename(conversation, title),
      remove: (conversation) => this.remove(conversation),
    });
    this.composer = new Composer({ onsend: (text) => this.send(text), onstop: () => this.stop() });
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
    addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && !isComposing(event) && !event.defaultPrevented && !byId('settings').open) this.stop();
    });
    // What is being written ends with the page, and is saved as far as it came.
    addEventListener('pagehide', () => {
      for (const asking of this.running.values()) {
        asking.stop();
        asking.message.state = 'stopped';
        this.store.save(asking.conversation);
      }
    });
  }

  /** Asks what model there is, until it is loaded. */
  async findModel() {
    clearTimeout(this.look);
    try {
      this.model = await fetchModel(this.settings.key);
      byId('model').textContent = this.model.id;
      byId('welcome-model').textContent = `${this.model.id} answers. What you write goes to this server and nowhere else.`;
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

  /** What is around the messages: title, list, button, figures. */
  showState() {
    const title = this.conversation?.title ?? 'New chat';
    byId('title').textContent = title;
    document.title = this.conversation ? `${title} – cria` : 'cria';
    this.sidebar.show(this.store.list(), this.conversation?.id, this.running);
    this.composer.setRunning(this.running.has(this.conversation?.id));
    this.showStats();
  }

  showStats() {
    byId('stats').textContent = this.conversation?.messages.at(-1)?.stats ?? '';
  }

  /** Says what was done; and where it could not be stored, that too, as there is one notice at a time. */
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

  send(text) {
    if (this.running.has(this.conversation?.id)) return;
    if (!this.conversation) {
      const now = Date.now();
      this.conversation = { id: newId(), title: titleOf([{ role: 'user', content: text }]), created: now, updated: now, from: 0, messages: [] };
      this.talk.show(this.conversation);
      history.replaceState(null, '', `#${this.conversation.id}`);
    }
    this.conversation.messages.push({ role: 'user', content: text });
    this.ask();
  }

  /** Has the model answer the conversation as it stands. */
  ask() {
    const { conversation } = this;
    const message = { role: 'assistant', content: '', state: 'streaming' };
    conversation.messages.push(message);
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
    if (!this.model) this.findModel();
  }

  stop() {
    this.running.get(this.conversation?.id)?.stop();
  }

  /** The last answer is given anew. */
  answerAgain() {
    if (this.running.has(this.conversation.id)) return;
    if (this.conversation.messages.at(-1).role === 'assistant') this.conversation.messages.pop();
    this.ask();
  }

  edit(message, text) {
    const { conversation } = this;
    this.running.get(conversation.id)?.stop();
    this.running.delete(conversation.id);
    const { messages, from } = conversation, at = messages.indexOf(message);
    conversation.messages = [...messages.slice(0, at), { role: 'user', content: text }];
    conversation.from = Math.min(from, at);
    this.ask();
    this.told('What followed the message is gone.', { action: 'Undo', act: () => this.restore(conversation, messages, from) });
  }

  /** The messages as they were before one of them was changed. */
  restore(conversation, messages, from) {
    this.running.get(conversation.id)?.stop();
    this.running.delete(conversation.id);
    Object.assign(conversation, { messages, from, updated: Date.now() });
    if (this.conversation === conversation) this.talk.show(conversation);
    this.changed(conversation);
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
    if (!this.store.get(conversation.id)) return this.showState();  // another tab deleted it meanwhile
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
