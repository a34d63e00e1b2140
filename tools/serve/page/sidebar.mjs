// The list of conversations, and the drawer it is on a narrow screen.
import { byId, element, icon, iconButton, isComposing } from './dom.mjs';

/** The heading under which a conversation of that time stands. */
function dayOf(time) {
  const midnight = (at) => new Date(at).setHours(0, 0, 0, 0);
  const days = Math.round((midnight(Date.now()) - midnight(time)) / 86400000);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  if (days < 7) return 'The last 7 days';
  if (days < 30) return 'The last 30 days';
  return new Date(time).toLocaleDateString('en', { month: 'long', year: 'numeric' });
}

/** True if the title or the shown messages contain all words, in any case. */
function matches({ title, messages }, words) {
  const text = [title, ...messages.map((message) => message.content)].join('\n').toLowerCase();
  return words.every((word) => text.includes(word));
}

const narrow = matchMedia('(max-width: 800px)');

export class Sidebar {
  /** `actions`: open(id), rename(conversation, title), remove(conversation). */
  constructor(actions) {
    this.actions = actions;
    this.list = byId('conversation-list');
    this.renaming = false;
    this.words = [];
    byId('search').addEventListener('input', () => {
      this.words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
      this.show(...this.shown);
    });
    byId('menu').append(icon('menu'));
    byId('menu-close').append(icon('close'));
    byId('menu').addEventListener('click', () => this.setOpen(true));
    byId('menu-close').addEventListener('click', () => this.setOpen(false));
    byId('backdrop').addEventListener('click', () => this.setOpen(false));
    byId('sidebar').addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.isOpen) {
        event.stopPropagation();
        this.setOpen(false);
      }
    });
    narrow.addEventListener('change', () => this.setOpen(false));
  }

  get isOpen() {
    return document.body.classList.contains('menu-open');
  }

  setOpen(open) {
    if (open === this.isOpen) return;
    document.body.classList.toggle('menu-open', open);
    byId('backdrop').hidden = !open;
    byId('menu').setAttribute('aria-expanded', String(open));
    document.querySelector('main').inert = open;
    if (open) byId('menu-close').focus();
    else if (narrow.matches) byId('menu').focus();
  }

  /**
   * Draws the list and keeps the focus. While a name is being edited, it does nothing; the end of
   * editing draws.
   */
  show(conversations, currentId, running) {
    this.shown = [conversations, currentId, running];
    if (this.renaming) return;
    const found = this.words.length ? conversations.filter((one) => matches(one, this.words)) : conversations;
    const focused = this.focused();
    byId('search').hidden = conversations.length === 0;
    byId('no-conversations').hidden = found.length > 0;
    byId('no-conversations').textContent = conversations.length > 0 ? 'Nothing is found.' : 'Your conversations will be here. They stay in this browser.';
    let day = null;
    this.list.replaceChildren(...found.flatMap((one) => {
      const item = this.item(one, one.id === currentId, running.has(one.id)), before = day;
      day = dayOf(one.updated);
      return day === before ? [item] : [element('li', { class: 'day', text: day }), item];
    }));
    if (focused) this.focus(focused);
  }

  /** Returns the focused button and its conversation, or null. */
  focused() {
    const button = document.activeElement;
    const open = this.list.contains(button) ? button.closest('li').querySelector('[data-id]') : null;
    return open && { id: open.dataset.id, testid: button.dataset.testid };
  }

  focus({ id, testid }) {
    const open = this.list.querySelector(`[data-id="${id}"]`);
    open?.focus();  // the other buttons are there only while the focus is in their item
    open?.closest('li').querySelector(`[data-testid="${testid}"]`).focus();
  }

  item(conversation, current, running) {
    const open = element('button', { type: 'button', class: 'conversation', testid: 'conversation', 'data-id': conversation.id, 'aria-current': current ? 'page' : null, title: conversation.title,
      onclick: () => this.actions.open(conversation.id) }, element('span', { text: conversation.title }));
    if (running) open.append(element('span', { class: 'running', role: 'img', 'aria-label': 'an answer is being written' }));
    const item = element('li', { class: current ? 'current' : null }, open);
    item.append(
      iconButton('edit', `Rename “${conversation.title}”`, { testid: 'rename-conversation', onclick: () => this.rename(item, conversation) }),
      iconButton('trash', `Delete “${conversation.title}”`, { testid: 'delete-conversation', onclick: () => this.actions.remove(conversation) }));
    return item;
  }

  rename(item, conversation) {
    const input = element('input', { class: 'rename', testid: 'rename-input', maxlength: 200, 'aria-label': 'New name' });
    input.value = conversation.title;
    this.renaming = true;
    const leave = (title) => {
      if (!this.renaming) return;
      this.renaming = false;
      this.actions.rename(conversation, title.trim() || conversation.title);
      this.list.querySelector(`[data-id="${conversation.id}"]`)?.focus();
    };
    input.addEventListener('keydown', (event) => {
      if (isComposing(event)) return;
      // Without preventDefault(), Enter would press the button that gets the focus.
      if (event.key === 'Enter') { event.preventDefault(); leave(input.value); }
      if (event.key === 'Escape') { event.stopPropagation(); leave(conversation.title); }
    });
    input.addEventListener('blur', () => leave(input.value));
    item.replaceChildren(input);
    input.select();
  }
}
