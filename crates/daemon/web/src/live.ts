// Keeps the page up to date: the server sends its changed part as one event.

/** What has the focus, and where the cursor is in it. */
interface Focus {
  name: string;
  from: number | null;
  to: number | null;
}

/** What a reader has opened, scrolled and focused, so that an update does not take it away. */
interface Kept {
  open: Set<string>;
  scrolled: Map<string, number | null>;
  focus: Focus | null;
  typed: Map<string, string>;
  sideways: number[];
}

const END = 4;

/** What scrolls by itself. */
const SCROLLED = 'pre[id], .long[id]';

/** What scrolls sideways where the window is narrow: the sections, and tables. */
const WIDE = '.sections, .wide';

/** Names an element so that it is found in the next version of the page: a link by where it leads, a button by what it sends. */
function nameOf(element: Element): string {
  if (element.id) return `#${element.id}`;
  if (element instanceof HTMLAnchorElement) return `a ${element.getAttribute('href') ?? ''}`;
  if (!(element instanceof HTMLButtonElement) || !element.form) return '';
  const sent = [...element.form.querySelectorAll<HTMLInputElement>('input[type=hidden]')].map((input) => input.value);
  return ['button', ...sent, element.value].join(' ');
}

function focused(main: HTMLElement): Focus | null {
  const element = document.activeElement;
  if (!element || !main.contains(element)) return null;
  const typed = element instanceof HTMLInputElement && element.type === 'text' ? element : null;
  return { name: nameOf(element), from: typed?.selectionStart ?? null, to: typed?.selectionEnd ?? null };
}

function refocus(main: HTMLElement, focus: Focus): void {
  if (!focus.name) return;
  const element = [...main.querySelectorAll<HTMLElement>('[id], a[href], button')].find((one) => nameOf(one) === focus.name);
  element?.focus({ preventScroll: true });
  if (element instanceof HTMLInputElement && focus.from !== null) element.setSelectionRange(focus.from, focus.to);
}

function keep(main: HTMLElement): Kept {
  const open = new Set([...main.querySelectorAll<HTMLDetailsElement>('details[open]')].map((element) => element.id));
  const scrolled = new Map<string, number | null>();
  for (const pre of main.querySelectorAll(SCROLLED)) {
    const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - END;
    scrolled.set(pre.id, atEnd ? null : pre.scrollTop);
  }
  const typed = new Map<string, string>();
  for (const input of main.querySelectorAll<HTMLInputElement>('input[id]')) typed.set(input.id, input.value);
  const sideways = [...main.querySelectorAll(WIDE)].map((element) => element.scrollLeft);
  return { open, scrolled, sideways, focus: focused(main), typed };
}

function restore(main: HTMLElement, kept: Kept): void {
  for (const id of kept.open) {
    const element = document.getElementById(id);
    if (element instanceof HTMLDetailsElement) element.open = true;
  }
  for (const pre of main.querySelectorAll(SCROLLED)) pre.scrollTop = kept.scrolled.get(pre.id) ?? pre.scrollHeight;
  main.querySelectorAll(WIDE).forEach((element, at) => { element.scrollLeft = kept.sideways[at] ?? 0; });
  for (const input of main.querySelectorAll<HTMLInputElement>('input[id]')) {
    const value = kept.typed.get(input.id);
    if (value !== undefined) input.value = value;
  }
  if (kept.focus) refocus(main, kept.focus);
}

/** What somebody has marked to copy stays until they let go of it, and a form until its question is answered. */
function isHeld(main: HTMLElement): boolean {
  const chosen = getSelection();
  const isMarked = chosen !== null && !chosen.isCollapsed && main.contains(chosen.anchorNode);
  return isMarked || document.querySelector('#sure.asked') !== null;
}

/** How many decisions wait for the user, beside the inbox. */
function showWaiting(count: string): void {
  const badge = document.getElementById('waiting');
  if (!badge) return;
  badge.textContent = count;
  badge.hidden = count === '0';
}

export function keepLive(main: HTMLElement, shown: () => void): void {
  for (const pre of main.querySelectorAll('.log[id^="tail-"]')) pre.scrollTop = pre.scrollHeight;
  const at = main.dataset['at'];
  const live = document.getElementById('live');
  if (!at || !live) return;
  let waiting: string | null = null;
  const show = (text: string): void => {
    waiting = null;
    const kept = keep(main);
    const parsed = new DOMParser().parseFromString(text, 'text/html');
    main.replaceChildren(...parsed.body.childNodes);
    restore(main, kept);
    shown();
  };
  const source = new EventSource(`/live?at=${encodeURIComponent(at)}`);
  source.onopen = () => { live.textContent = 'live'; live.className = 'live on'; };
  source.onerror = () => {
    // The browser tries again by itself, unless the daemon no longer knows the session.
    const ended = source.readyState === EventSource.CLOSED;
    live.textContent = ended ? 'session ended: run hothouse ui' : 'not connected';
    live.className = 'live off';
  };
  source.addEventListener('waiting', (event: MessageEvent<string>) => showWaiting(event.data));
  source.onmessage = (event: MessageEvent<string>) => {
    if (isHeld(main)) waiting = event.data; else show(event.data);
  };
  const release = (): void => { if (waiting !== null && !isHeld(main)) show(waiting); };
  document.addEventListener('selectionchange', release);
  // After the dialog's own listeners.
  document.addEventListener('close', () => setTimeout(release), true);
  // A page that nobody looks at costs nothing.
  addEventListener('pagehide', () => source.close());
}
