// Where messages are written: the box grows with its text; Enter sends.
import { announce, byId, element, icon, isComposing } from './dom.mjs';

const touch = matchMedia('(pointer: coarse)');

export class Composer {
  /** `onsend(text)`, `onstop()`. */
  constructor({ onsend, onstop }) {
    Object.assign(this, { onsend, onstop });
    this.box = byId('prompt');
    this.sendButton = byId('send');
    this.sendButton.append(icon('send'));
    this.stopButton = element('button', { type: 'button', class: 'send stop', testid: 'stop', 'aria-label': 'Stop', title: 'Stop (Escape)', onclick: () => onstop() }, icon('stop'));
    this.running = false;
    this.box.addEventListener('input', () => this.changed());
    this.box.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || isComposing(event)) return;
      event.preventDefault();
      this.send();
    });
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.send();
    });
    // The whole box can be clicked.
    byId('composer').addEventListener('click', (event) => event.target === byId('composer') && this.box.focus());
  }

  changed() {
    this.sendButton.disabled = this.box.value.trim() === '';
    this.box.style.height = 'auto';
    this.box.style.height = `${this.box.scrollHeight}px`;
  }

  send() {
    const text = this.box.value.trim();
    if (!text) return;
    if (this.running) return announce('The answer is still being written. Escape stops it.');
    this.box.value = '';
    this.changed();
    this.onsend(text);
  }

  /** While an answer is written, the button stops it. */
  setRunning(running) {
    if (running === this.running) return;
    const focused = document.activeElement;
    this.running = running;
    byId('composer-buttons').replaceChildren(running ? this.stopButton : this.sendButton);
    if (focused === this.sendButton || focused === this.stopButton) this.focus();
  }

  /** Not where that would open a keyboard over the answer. */
  focus() {
    if (!touch.matches) this.box.focus();
  }
}
