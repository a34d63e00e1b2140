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

/** The names of attached files; `remove(file)`, if given, takes one away. */
export function fileList(files, remove) {
  return element('ul', { class: 'files', 'aria-label': 'Attached files' }, ...files.map((file) => element('li', { testid: 'file' }, icon('clip'), element('span', { text: file.name }),
    remove ? iconButton('close', `Take ${file.name} away`, { onclick: () => remove(file) }) : null)));
}

/**
 * `actions`: edit(message, text), regenerate(), goOn(), retry(), openSettings(), shorten(),
 * showVersion(message, number).
 */
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
    this.text.hidden = message.content === '';
    if (message.files?.length) this.text.before(fileList(message.files));
    this.foot.replaceChildren(...this.versionButtons(), ...this.editButtons());
  }

  editButtons() {
    const { message } = this;
    this.editButton = iconButton('edit', 'Edit', { testid: message.role === 'user' ? 'edit-message' : 'edit-answer', onclick: () => this.edit() });
    const copy = iconButton('copy', 'Copy', { testid: 'copy-message', onclick: () => copyBy(copy, message.content) });
    copy.append(icon('check'));
    return [this.editButton, copy];
  }

  /** Buttons to the older and newer versions of a message, if it has several. */
  versionButtons() {
    const { versions } = this.message;
    if (!versions) return [];
    const shown = versions.indexOf(null), go = (number) => this.actions.showVersion(this.message, number);
    return [element('span', { class: 'versions', testid: 'versions', role: 'group', 'aria-label': `Version ${shown + 1} of ${versions.length}` },
      iconButton('left', 'Older version', { testid: 'version-older', disabled: shown === 0, onclick: () => go(shown - 1) }),
      element('span', { text: `${shown + 1} / ${versions.length}` }),
      iconButton('right', 'Newer version', { testid: 'version-newer', disabled: shown === versions.length - 1, onclick: () => go(shown + 1) }))];
  }

  /**
   * Shows the message in a box of its own. A question that is sent is asked anew; the older version
   * is kept.
   */
  edit() {
    const { message } = this;
    const question = message.role === 'user';
    const box = element('textarea', { class: 'edit-text', testid: 'edit-text', 'aria-label': 'Edit the message', rows: Math.min(12, message.content.split('\n').length + 1) });
    box.value = message.content;
    const leave = () => {
      this.element.classList.remove('editing');
      this.text.hidden = question && message.content === '';
      this.foot.hidden = false;
      form.remove();
      this.editButton.focus();
    };
    const send = () => box.value.trim() && this.actions.edit(message, box.value.trim());
    const form = element('form', { class: 'edit', onsubmit: (event) => { event.preventDefault(); send(); } }, box,
      element('div', { class: 'row' },
        element('button', { type: 'submit', class: 'plain strong', testid: 'edit-send', text: question ? 'Send' : 'Keep' }),
        element('button', { type: 'button', class: 'plain', testid: 'edit-cancel', text: 'Cancel', onclick: leave })));
    box.addEventListener('keydown', (event) => {
      if (isComposing(event)) return;
      if (event.key === 'Escape') { event.stopPropagation(); leave(); }
      if (event.key === 'Enter' && (question ? !event.shiftKey : event.ctrlKey || event.metaKey)) { event.preventDefault(); send(); }
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
    if (streaming) this.wait(!message.content && !message.reasoning && !message.calls, message.progress);
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

  wait(waiting, progress) {
    if (waiting && !this.waiting) {
      this.waiting = element('p', { class: 'waiting', role: 'img', 'aria-label': 'Waiting for the answer' }, element('span'), element('span'), element('span'));
      this.text.before(this.waiting);
    } else if (!waiting && this.waiting) {
      this.waiting.remove();
      this.waiting = null;
    }
    if (!this.waiting || !progress) return;
    this.reading ??= this.waiting.appendChild(element('small', { class: 'reading', testid: 'progress' }));
    this.reading.textContent = `Reading: ${progress.processed.toLocaleString('en')} of ${progress.total.toLocaleString('en')} tokens`;
  }

  finish() {
    const { message } = this;
    this.wait(false);
    const note = message.state === 'stopped' ? endings.stopped : endings[message.finish];
    this.foot.replaceChildren(
      ...this.versionButtons(),
      ...(message.content ? this.editButtons() : []),
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

  /** Only the last message of a conversation has what answers anew or continues. */
  setLast(last) {
    for (const id of ['regenerate', 'continue']) this.foot.querySelector(`[data-testid="${id}"]`)?.remove();
    const { message } = this;
    if (!last || message.role !== 'assistant' || message.state === 'streaming' || message.state === 'error') return;
    const buttons = [iconButton('retry', 'Answer anew', { testid: 'regenerate', onclick: () => this.actions.regenerate() })];
    if (message.content && !message.calls) buttons.push(iconButton('more', 'Continue the answer', { testid: 'continue', onclick: () => this.actions.goOn() }));
    const copy = this.foot.querySelector('[data-testid="copy-message"]');
    if (copy) copy.after(...buttons);
    else this.foot.prepend(...buttons);
  }
}
