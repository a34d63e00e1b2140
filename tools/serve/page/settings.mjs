// The settings: what is sent with each question. An empty field is not sent; the server then does as it was started.
import { byId } from './dom.mjs';
import { readItem, writeItem } from './storage.mjs';

const SETTINGS_KEY = 'cria.chat.settings.v1';
const API_KEY = 'cria.chat.key';
const numberFields = {
  temperature: { input: 'setting-temperature', min: 0, max: 2 },
  top_p: { input: 'setting-top-p', min: 0, max: 1 },
  max_tokens: { input: 'setting-max-tokens', min: 1, max: Number.MAX_SAFE_INTEGER, whole: true },
  seed: { input: 'setting-seed', min: 0, max: Number.MAX_SAFE_INTEGER, whole: true },
};

function numberIn({ min, max, whole }, value) {
  return typeof value === 'number' && value >= min && value <= max && (!whole || Number.isInteger(value)) ? value : null;
}

export class Settings {
  /** `onkey`: the API key has changed. */
  constructor({ onkey }) {
    this.values = this.stored();
    byId('setting-system').value = this.values.system ?? '';
    for (const [name, { input }] of Object.entries(numberFields)) byId(input).value = this.values[name] ?? '';
    byId('setting-api-key').value = this.key;
    byId('settings-form').addEventListener('input', () => this.take());
    byId('setting-api-key').addEventListener('change', onkey);
    byId('settings-open').addEventListener('click', () => this.open());
    // A click beside the dialog closes it.
    byId('settings').addEventListener('click', (event) => {
      if (event.target === byId('settings')) byId('settings').close();
    });
  }

  get key() {
    return readItem('session', API_KEY) ?? '';
  }

  open(field) {
    byId('settings').showModal();
    if (field) byId(field).focus();
  }

  stored() {
    let value = null;
    try {
      value = JSON.parse(readItem('local', SETTINGS_KEY));
    } catch { /* then there are none */ }
    const values = {};
    if (typeof value?.system === 'string') values.system = value.system;
    for (const [name, field] of Object.entries(numberFields)) {
      const number = numberIn(field, value?.[name]);
      if (number !== null) values[name] = number;
    }
    return values;
  }

  /** Takes what the dialog holds; what is out of range is marked and not taken. */
  take() {
    const values = {};
    if (byId('setting-system').value.trim()) values.system = byId('setting-system').value;
    for (const [name, field] of Object.entries(numberFields)) {
      const input = byId(field.input);
      const number = input.value.trim() === '' ? null : numberIn(field, Number(input.value));
      const wrong = (number === null && input.value.trim() !== '') || input.validity.badInput;
      if (wrong) input.setAttribute('aria-invalid', 'true');
      else input.removeAttribute('aria-invalid');
      if (number !== null) values[name] = number;
    }
    this.values = values;
    writeItem('local', SETTINGS_KEY, JSON.stringify(values));
    writeItem('session', API_KEY, byId('setting-api-key').value.trim() || null);
  }

  /** The fields of a request, without the system message. */
  request() {
    const { system, ...numbers } = this.values;
    return numbers;
  }
}
