// The box for messages: it grows with its text; Enter sends.
import { announce, byId, element, icon, isComposing, toast } from './dom.mjs';
import { fileList } from './message.mjs';

const MAX_FILE = 2 << 20;  // bytes of an attached file

const touch = matchMedia('(pointer: coarse)');

/** Returns the file's text, or null unless it is UTF-8. */
async function textOf(file) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
}

export class Composer {
  /** `onsend(text, files)`, `onstop()`. */
  constructor({ onsend, onstop }) {
    Object.assign(this, { onsend, onstop });
    this.box = byId('prompt');
    this.sendButton = byId('send');
    this.sendButton.append(icon('send'));
    this.stopButton = element('button', { type: 'button', class: 'send stop', testid: 'stop', 'aria-label': 'Stop', title: 'Stop (Escape)', onclick: () => onstop() }, icon('stop'));
    this.running = false;
    this.files = [];
    this.takeFiles();
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

  /** Files are chosen, dropped anywhere on the page, or pasted. */
  takeFiles() {
    byId('attach').append(icon('clip'));
    byId('attach').addEventListener('click', () => byId('attach-file').click());
    byId('attach-file').addEventListener('change', async (event) => {
      await this.attach(event.target.files);
      event.target.value = '';
    });
    this.box.addEventListener('paste', (event) => {
      if (event.clipboardData.files.length === 0) return;
      event.preventDefault();
      this.attach(event.clipboardData.files);
    });
    const holdsFiles = (event) => event.dataTransfer?.types.includes('Files');
    addEventListener('dragover', (event) => holdsFiles(event) && event.preventDefault());
    addEventListener('drop', (event) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      this.attach(event.dataTransfer.files);
    });
  }

  async attach(files) {
    for (const file of [...files]) {
      const text = file.size > MAX_FILE ? null : await textOf(file);
      if (text === null) toast(file.size > MAX_FILE ? `${file.name} is too large: at most 2 MiB.` : `${file.name} is not a text file.`);
      else this.files.push({ name: file.name, text });
    }
    this.showFiles();
    this.focus();
  }

  showFiles() {
    byId('attached').replaceChildren(...(this.files.length ? [fileList(this.files, (file) => {
      this.files = this.files.filter((one) => one !== file);
      this.showFiles();
    })] : []));
    this.changed();
  }

  changed() {
    this.sendButton.disabled = this.box.value.trim() === '' && this.files.length === 0;
    this.box.style.height = 'auto';
    this.box.style.height = `${this.box.scrollHeight}px`;
  }

  send() {
    const text = this.box.value.trim();
    if (!text && this.files.length === 0) return;
    if (this.running) return announce('The answer is still being written. Escape stops it.');
    this.box.value = '';
    const { files } = this;
    this.files = [];
    this.showFiles();
    this.onsend(text, files);
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
