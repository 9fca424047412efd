// Keys: every page can be used without a mouse.

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** What `j` and `k` go through: rows of a table, or sandboxes. */
function stops(main: HTMLElement): HTMLElement[] {
  return [...main.querySelectorAll<HTMLElement>('table.records td.name a, table.tree td.name a, .rows .name')];
}

function step(main: HTMLElement, by: number): void {
  const all = stops(main);
  const at = all.indexOf(document.activeElement as HTMLElement);
  const next = all[at < 0 ? 0 : Math.max(0, Math.min(at + by, all.length - 1))];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

function up(): void {
  const parts = location.pathname.split('/').filter(Boolean);
  parts.pop();
  location.assign(parts.length <= 1 ? '/' : `/${parts.join('/')}`);
}

/** Goes to the terminal of the sandbox that the page is about. */
function openTerminal(): void {
  const found = /^\/sandbox\/[^/]+/.exec(location.pathname);
  if (found) location.assign(`${found[0]}/terminal`);
}

export function keys(main: HTMLElement, openPalette: () => void): void {
  let going = false;
  document.addEventListener('keydown', (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === 'k') {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector('dialog[open]')) return;
    const goes = going;
    going = false;
    switch (event.key) {
      case 'j': step(main, 1); break;
      case 'k': step(main, -1); break;
      case 'u': up(); break;
      case 'g': going = true; break;
      case 'i': if (goes) location.assign('/inbox'); break;
      case 'h': if (goes) location.assign('/'); break;
      case 'r': if (goes) location.assign('/runs'); break;
      case 'c': if (goes) location.assign('/compare'); break;
      case 't': openTerminal(); break;
      case '/': document.getElementById('filter')?.focus(); break;
      case '?': {
        const dialog = document.getElementById('keys');
        if (dialog instanceof HTMLDialogElement) dialog.showModal();
        break;
      }
      default: return;
    }
    event.preventDefault();
  });
}
