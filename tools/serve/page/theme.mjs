// Dark or light: what the system prefers, until the toggle says otherwise.
import { readItem, writeItem } from './storage.mjs';

const THEME_KEY = 'cria.chat.theme';
const systemIsDark = matchMedia('(prefers-color-scheme: dark)');

function showTheme() {
  const chosen = readItem('local', THEME_KEY);
  const theme = chosen === 'dark' || chosen === 'light' ? chosen : systemIsDark.matches ? 'dark' : 'light';
  document.documentElement.dataset.theme = theme;
}

export function toggleTheme() {
  const other = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  // Back at what the system says, the page follows the system again.
  writeItem('local', THEME_KEY, other === (systemIsDark.matches ? 'dark' : 'light') ? null : other);
  document.documentElement.dataset.theme = other;
}

// Before the first paint: the script stands in the head.
showTheme();
systemIsDark.addEventListener('change', showTheme);
addEventListener('storage', (event) => {
  if (event.key === THEME_KEY) showTheme();
});
