// One message on the screen.
import { copyBy, element, icon, iconButton, isComposing } from './dom.mjs';
import { AnswerText, codeBox } from './render.mjs';

const endings = {
  length: 'The answer ended at the limit of tokens.',
  stopped: 'Stopped.',
};

function labelled(button, text) {
  button.append(element('span', { text }));
  return button;
}

/** `actions`: edit(message, text), regenerate(), retry(), openSettings(), shorten(). */
export class MessageView {
  constructor(message, actions) {
    Object.assign(this, { message, actions });
    this.text = element('div', { class: 'message-text', testid: 'message-text' });
    this.foot = element('div', { class: 'message-foot' });
    this.element = element('article', { class: `message ${message.role}`, testid: 'message', 'data-role': message.role, 'data-state': message.state ?? 'done',
      'aria-label': message.role === 'user' ? 'You' : 'Answer' }, this.text, this.foot);
    if (message.role === 'user') this.showQuestion();
    else {
      this.answer = new AnswerText(this.text);
      this.update();
    }
  }

  showQuestion() {
    const { message } = this;
    this.text.textContent = message.content;
    this.editButton = iconButton('edit', 'Edit', { testid: 'edit-message', onclick: () => this.edit() });
    const copy = iconButton('copy', 'Copy', { testid: 'copy-message', onclick: () => copyBy(copy, message.content) });
    copy.append(icon('check'));
    this.foot.replaceChildren(this.editButton, copy);
  }

  /** The question in a box of its own; sending it begins again from here. */
  edit() {
    const { message } = this;
    const box = element('textarea', { class: 'edit-text', testid: 'edit-text', 'aria-label': 'Edit the message', rows: Math.min(12, message.content.split('\n').length + 1) });
    box.value = message.content;
    const leave = () => {
      this.element.classList.remove('editing');
      this.text.hidden = this.foot.hidden = false;
      form.remove();
      this.editButton.focus();
    };
    const send = () => box.value.trim() && this.actions.edit(message, box.value.trim());
    const form = element('form', { class: 'edit', onsubmit: (event) => { event.preventDefault(); send(); } }, box,
      element('div', { class: 'row' },
        element('button', { type: 'submit', class: 'plain strong', testid: 'edit-send', text: 'Send' }),
        element('button', { type: 'button', class: 'plain', testid: 'edit-cancel', text: 'Cancel', onclick: leave })));
    box.addEventListener('keydown', (event) => {
      if (isComposing(event)) return;
      if (event.key === 'Escape') { event.stopPropagation(); leave(); }
      if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); send(); }
    });
    this.element.classList.add('editing');
    this.text.hidden = this.foot.hidden = true;
    this.element.append(form);
    box.focus();
  }

  /** Draws what the answer is now. */
  update() {
    const { message } = this;
    const streaming = message.state === 'streaming';
    this.element.dataset.state = message.state;
    this.text.setAttribute('aria-busy', String(streaming));
    this.updateThinking(streaming);
    this.answer.show(message.content, streaming);
    this.updateCalls();
    if (streaming) this.wait(!message.content && !message.reasoning && !message.calls);
    else this.finish();
  }

  /** The thinking is folded; while it is all there is, its line says so. */
  updateThinking(streaming) {
    const { reasoning, content } = this.message;
    if (!reasoning) return;
    if (!this.thinking) {
      this.thinkingText = element('div', { class: 'thinking-text', testid: 'reasoning' }, '');
      this.thinkingLabel = element('summary');
      this.thinking = element('details', { class: 'thinking' }, this.thinkingLabel, this.thinkingText);
      this.text.before(this.thinking);
    }
    const shown = this.thinkingText.firstChild;
    shown.appendData(reasoning.slice(shown.length));
    const label = streaming && !content ? 'Thinking…' : 'Thoughts';
    if (this.thinkingLabel.textContent !== label) this.thinkingLabel.textContent = label;
  }

  updateCalls() {
    const { calls } = this.message;
    if (!calls) return;
    this.calls ??= this.text.parentNode.insertBefore(element('div', { class: 'calls' }), this.foot);
    this.calls.replaceChildren(...calls.filter(Boolean).map((call) => element('div', { class: 'call', testid: 'tool-call' },
      element('p', {}, 'Wants to call ', element('code', { text: call.name })), codeBox(call.arguments, 'json', this.message.state !== 'streaming'))));
  }

  wait(waiting) {
    if (waiting && !this.waiting) {
      this.waiting = element('p', { class: 'waiting', role: 'img', 'aria-label': 'Waiting for the answer' }, element('span'), element('span'), element('span'));
      this.text.before(this.waiting);
    } else if (!waiting && this.waiting) {
      this.waiting.remove();
      this.waiting = null;
    }
  }

  finish() {
    const { message } = this;
    this.wait(false);
    const copy = iconButton('copy', 'Copy', { testid: 'copy-message', onclick: () => copyBy(copy, message.content) });
    copy.append(icon('check'));
    const note = message.state === 'stopped' ? endings.stopped : endings[message.finish];
    this.foot.replaceChildren(
      ...(message.content ? [copy] : []),
      ...(note ? [element('span', { class: 'note', text: note })] : []),
      ...(message.stats ? [element('span', { class: 'figures', text: message.stats })] : []));
    this.element.querySelector('.error')?.remove();
    if (message.state === 'error') this.text.after(this.errorBox());
  }

  errorBox() {
    const { message: words, detail, code } = this.message.error ?? { message: 'The answer failed.' };
    const buttons = [labelled(element('button', { type: 'button', class: 'plain', testid: 'retry', onclick: () => this.actions.retry() }, icon('retry')), 'Try again')];
    if (code === 'invalid_api_key') buttons.push(element('button', { type: 'button', class: 'plain', text: 'Open the settings', onclick: () => this.actions.openSettings() }));
    if (code === 'context_length_exceeded') {
      buttons.unshift(element('button', { type: 'button', class: 'plain', testid: 'shorten', text: 'Leave out the oldest messages', onclick: () => this.actions.shorten() }));
    }
    return element('div', { class: 'error', testid: 'error', role: 'alert' }, element('p', {}, element('strong', { text: words }), detail ? ` ${detail}` : ''),
      element('div', { class: 'row' }, ...buttons));
  }

  /** Only the last message of a conversation has what answers anew. */
  setLast(last) {
    this.foot.querySelector('[data-testid="regenerate"]')?.remove();
    if (!last || this.message.role !== 'assistant' || this.message.state === 'streaming' || this.message.state === 'error') return;
    const button = iconButton('retry', 'Answer anew', { testid: 'regenerate', onclick: () => this.actions.regenerate() });
    const copy = this.foot.querySelector('[data-testid="copy-message"]');
    if (copy) copy.after(button);
    else this.foot.prepend(button);
  }
}
