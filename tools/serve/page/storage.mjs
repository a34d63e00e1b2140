// The browser's storage, which may be refused (private windows, policies) or full.

/** The area 'local' or 'session', or null where the browser refuses it. */
function storageArea(name) {
  try {
    return name === 'local' ? localStorage : sessionStorage;
  } catch {
    return null;
  }
}

/** The stored text, or null. */
export function readItem(area, key) {
  return storageArea(area)?.getItem(key) ?? null;
}

/** Stores the text, or removes the key if it is null; false if that failed. */
export function writeItem(area, key, text) {
  try {
    if (text === null) storageArea(area).removeItem(key);
    else storageArea(area).setItem(key, text);
    return true;
  } catch {
    return false;
  }
}

/** Keys of the area that begin with a text, in order. */
export function itemKeys(area, begin) {
  return Object.keys(storageArea(area) ?? {}).filter((key) => key.startsWith(begin)).sort();
}
