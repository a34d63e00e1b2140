// The settings are sent with each question. An empty field is not sent, so the server uses its
// default.
import { byId, element } from './dom.mjs';
import { readItem, writeItem } from './storage.mjs';

const SETTINGS_KEY = 'cria.chat.settings.v1';
const API_KEY = 'cria.chat.key';
const numberFields = {
  temperature: { input: 'setting-temperature', min: 0, max: 2 },
  top_p: { input: 'setting-top-p', min: 0, max: 1 },
  max_tokens: { input: 'setting-max-tokens', min: 1, max: Number.MAX_SAFE_INTEGER, whole: true },
  seed: { input: 'setting-seed', min: 0, max: Number.MAX_SAFE_INTEGER, whole: true },
};

/**
 * Returns a field's text as JSON: a number, or a list whose parts are divided by commas; undefined
 * for other text.
 */
function sampled(text, standard) {
  if (Array.isArray(standard)) return text.split(',').map((part) => part.trim());
  if (typeof standard === 'string') return text;
  return Number.isFinite(Number(text)) ? Number(text) : undefined;
}

/** Returns the text as a JSON schema, or undefined. */
function schemaIn(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function numberIn({ min, max, whole }, value) {
  return typeof value === 'number' && value >= min && value <= max && (!whole || Number.isInteger(value)) ? value : null;
}

function mark(input, wrong) {
  if (wrong) input.setAttribute('aria-invalid', 'true');
  else input.removeAttribute('aria-invalid');
}

export class Settings {
  /**
   * `onkey` is called if the API key changes, `onsystem(text)` if the shown conversation's system
   * message does.
   */
  constructor({ onkey, onsystem }) {
    this.values = this.stored();
    this.defaults = {};
    byId('setting-thinking').value = this.values.thinking ?? '';
    byId('setting-schema').value = this.values.schema ?? '';
    byId('setting-conversation-system').addEventListener('input', () => onsystem(byId('setting-conversation-system').value));
    byId('setting-system').value = this.values.system ?? '';
    for (const [name, { input }] of Object.entries(numberFields)) byId(input).value = this.values[name] ?? '';
    byId('setting-api-key').value = this.key;
    byId('settings-form').addEventListener('input', () => this.take());
    byId('setting-api-key').addEventListener('change', onkey);
    byId('settings-open').addEventListener('click', () => this.open());
    // A click outside the dialog closes it.
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
    } catch { /* no settings stored */ }
    const values = {};
    for (const name of ['system', 'schema', 'thinking']) if (typeof value?.[name] === 'string') values[name] = value[name];
    if (typeof value?.sampling === 'object' && value.sampling !== null) values.sampling = Object.fromEntries(Object.entries(value.sampling).filter(([, text]) => typeof text === 'string'));
    for (const [name, field] of Object.entries(numberFields)) {
      const number = numberIn(field, value?.[name]);
      if (number !== null) values[name] = number;
    }
    return values;
  }

  /** Takes what the dialog holds; what is out of range is marked and not taken. */
  take() {
    const values = {};
    for (const name of ['system', 'schema', 'thinking']) if (byId(`setting-${name}`).value.trim()) values[name] = byId(`setting-${name}`).value;
    mark(byId('setting-schema'), values.schema && !schemaIn(values.schema));
    values.sampling = { ...this.values.sampling };
    for (const input of byId('sampling').querySelectorAll('input')) {
      const text = input.value.trim(), wrong = text !== '' && sampled(text, this.defaults[input.name]) === undefined;
      mark(input, wrong);
      if (text && !wrong) values.sampling[input.name] = text;
      else delete values.sampling[input.name];
    }
    for (const [name, field] of Object.entries(numberFields)) {
      const input = byId(field.input);
      const number = input.value.trim() === '' ? null : numberIn(field, Number(input.value));
      const wrong = (number === null && input.value.trim() !== '') || input.validity.badInput;
      mark(input, wrong);
      if (number !== null) values[name] = number;
    }
    this.values = values;
    writeItem('local', SETTINGS_KEY, JSON.stringify(values));
    writeItem('session', API_KEY, byId('setting-api-key').value.trim() || null);
  }

  /** Makes a field for every sampling option of the server, with its default value. */
  showDefaults(defaults) {
    this.defaults = Object.fromEntries(Object.entries(defaults).filter(([name, value]) => !(name in numberFields) && name !== 'n_predict' && (Array.isArray(value) || ['number', 'string'].includes(typeof value))));
    byId('sampling').replaceChildren(...Object.entries(this.defaults).map(([name, value]) => {
      const input = element('input', { id: `sampling-${name}`, name, testid: `sampling-${name}`, autocomplete: 'off', spellcheck: 'false', placeholder: Array.isArray(value) ? value.join(', ') : String(value) });
      input.value = this.values.sampling?.[name] ?? '';
      return element('div', { class: 'field' }, element('label', { for: input.id, text: name }), input);
    }));
    byId('more-sampling').hidden = Object.keys(this.defaults).length === 0;
  }

  /** Shows the system message of a conversation. */
  showSystem(text) {
    byId('setting-conversation-system').value = text;
  }

  /** The fields of a request, without the system message. */
  request() {
    const { system, schema, thinking, sampling = {}, ...fields } = this.values;
    for (const [name, text] of Object.entries(sampling)) if (name in this.defaults) fields[name] = sampled(text, this.defaults[name]);
    if (thinking) fields.enable_thinking = thinking === 'on';
    const form = schema && schemaIn(schema);
    if (form) fields.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema: form, strict: true } };
    return fields;
  }
}
