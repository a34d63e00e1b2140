// Versions of a conversation. A message that was asked or answered anew has `versions`. Each is the
// list of messages from there on, or null for the shown version, whose messages are in the
// conversation.

/** Replaces the messages from `at` on by `tail` and keeps them as another version. */
export function addVersion(messages, at, tail) {
  const old = messages.slice(at), versions = old[0]?.versions ?? [null];
  if (old.length > 0) {
    delete old[0].versions;
    tail[0].versions = [...versions.map((version) => version ?? old), null];
  }
  return [...messages.slice(0, at), ...tail];
}

/** The messages with version `number` of the message at `at`. */
export function showVersion(messages, at, number) {
  const old = messages.slice(at), { versions } = old[0];
  const shown = versions[number];
  if (!shown) return messages;
  delete old[0].versions;
  shown[0].versions = versions.map((version, place) => (place === number ? null : version ?? old));
  return [...messages.slice(0, at), ...shown];
}
