// Keeps the page up to date: the server sends its changed part as one event.

/** What a reader has opened, scrolled and focused, so that an update does not take it away. */
interface Kept {
  open: Set<string>;
  scrolled: Map<string, number | null>;
  focus: string;
  typed: Map<string, string>;
  sideways: number[];
}

const END = 4;

/** What scrolls by itself. */
const SCROLLED = 'pre[id], .long[id]';

/** What scrolls sideways where the window is narrow: the sections, and tables. */
const WIDE = '.sections, .wide';

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
  return { open, scrolled, sideways, focus: document.activeElement?.id ?? '', typed };
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
  if (kept.focus) document.getElementById(kept.focus)?.focus({ preventScroll: true });
}

/** What somebody has marked to copy stays until they let go of it. */
function isMarked(main: HTMLElement): boolean {
  const chosen = getSelection();
  return chosen !== null && !chosen.isCollapsed && main.contains(chosen.anchorNode);
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
  source.onerror = () => { live.textContent = 'not connected'; live.className = 'live off'; };
  source.onmessage = (event: MessageEvent<string>) => {
    if (isMarked(main)) waiting = event.data; else show(event.data);
  };
  document.addEventListener('selectionchange', () => { if (waiting !== null && !isMarked(main)) show(waiting); });
  // A page that nobody looks at costs nothing.
  addEventListener('pagehide', () => source.close());
}
