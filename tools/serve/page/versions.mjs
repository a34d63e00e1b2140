// Versions of a conversation. A message that was asked or answered anew has `versions`: for each one the messages from
// there on, and null for the one that is shown, whose messages stand in the conversation.

/** The messages with `tail` in the place of those from `at` on, which stay as another version. */
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
