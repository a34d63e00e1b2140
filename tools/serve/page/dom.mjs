// Making elements. Text is always set as text: nothing here reads HTML.

/**
 * Makes an element. `testid`, `text` and listeners (`onclick`) are set by name. `true` makes an
 * attribute without a value; null and false make none.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') made.textContent = value;
    else if (name === 'testid') made.dataset.testid = value;
    else if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Lines of 24 × 24, drawn with a round pen.
const iconPaths = {
  check: 'M5 12.5l4.500 4.500L19 7.500',
  clip: 'M8 12.500l6.500-6.500a3 3 0 0 1 4.300 4.300L11 18a5 5 0 0 1-7-7l7-7',
  close: 'M6 6l12 12M18 6L6 18',
  copy: 'M9 9h10v11H9zM6 15H5V4h10v2',
  down: 'M12 5v14M6 13l6 6 6-6',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  left: 'M14 6l-6 6 6 6',
  menu: 'M4 7h16M4 12h16M4 17h10',
  moon: 'M19.500 14.500A8 8 0 0 1 9.500 4.500a8 8 0 1 0 10 10z',
  more: 'M5 6v12l8-6zM14 6v12l8-6z',
  plus: 'M12 5v14M5 12h14',
  retry: 'M19 12a7 7 0 1 1-2.200-5.100M19 4v4h-4',
  right: 'M10 6l6 6-6 6',
  send: 'M12 19V5M6 11l6-6 6 6',
  settings: 'M4 8h9M17 8h3M4 16h3M11 16h9M15 6v4M9 14v4',
  stop: 'M7 7h10v10H7z',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.500v2M12 19.500v2M2.500 12h2M19.500 12h2M5.300 5.300l1.400 1.400M17.300 17.300l1.400 1.400M18.700 5.300l-1.400 1.400M6.700 17.300l-1.400 1.400',
  trash: 'M5 7h14M10 7V4.500h4V7M7 7l1 13h8l1-13M10.500 11v5M13.500 11v5',
};

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  svg.classList.add('icon', `icon-${name}`);
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', iconPaths[name]);
  svg.append(path);
  return svg;
}

/** A button that shows an icon alone and has a name for those who do not see it. */
export function iconButton(name, label, attributes = {}) {
  return element('button', { type: 'button', class: 'icon-button', 'aria-label': label, title: label, ...attributes }, icon(name));
}

export const byId = (id) => document.getElementById(id);

/**
 * True if a key belongs to an input method. Safari ends the composition before it reports the last
 * key, whose code is then 229.
 */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

/** Said to screen readers only. */
export function announce(text) {
  byId('announcer').textContent = text;
}

/**
 * Shows a short notice at the lower edge, with up to one action. An open dialog holds it, since
 * nothing behind the dialog can be reached.
 */
export function toast(text, { action, act, seconds = 8 } = {}) {
  const box = element('div', { class: 'toast', testid: 'toast' }, element('span', { text }));
  const remove = () => box.remove();
  if (action) {
    box.append(element('button', { type: 'button', class: 'toast-action', text: action, onclick: () => { remove(); act(); } }));
  }
  box.append(iconButton('close', 'Dismiss', { onclick: remove }));
  (byId('settings').open ? byId('settings') : document.body).append(byId('toasts'));
  byId('toasts').replaceChildren(box);
  setTimeout(remove, seconds * 1000);
}

/**
 * Copies text, also on pages without HTTPS, which have no clipboard unless the host is localhost.
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const before = document.activeElement;
    const box = element('textarea', { class: 'unseen', 'aria-hidden': 'true' });
    box.value = text;
    document.body.append(box);
    box.select();
    const copied = document.execCommand('copy');
    box.remove();
    before?.focus();
    return copied;
  }
}

/** Copies when the button is pressed, and shows on it for a moment that it did. */
export async function copyBy(button, text) {
  const copied = await copyText(text);
  announce(copied ? 'Copied' : 'The browser does not allow copying');
  if (!copied) return toast('The browser does not allow copying here.');
  button.classList.add('copied');
  setTimeout(() => button.classList.remove('copied'), 1500);
}
