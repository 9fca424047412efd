// The palette: every page by its name.

interface Destination {
  title: string;
  to: string;
}

const SHOWN = 12;

/** Ranks a title: all words must occur; those at the beginning of a word come first. */
export function rank(title: string, typed: string): number | null {
  const text = title.toLowerCase();
  let points = 0;
  for (const word of typed.toLowerCase().split(/\s+/).filter(Boolean)) {
    const at = text.indexOf(word);
    if (at < 0) return null;
    points += at === 0 || /[^a-z0-9]/.test(text[at - 1] ?? '') ? 0 : 10;
  }
  return points + text.length / 100;
}

export function palette(): () => void {
  const dialog = document.getElementById('palette');
  const input = document.getElementById('palette-text');
  const list = document.getElementById('palette-list');
  const opener = document.getElementById('palette-open');
  if (!(dialog instanceof HTMLDialogElement) || !(input instanceof HTMLInputElement) || !list || !opener) return () => undefined;
  let all: Destination[] = [];
  let chosen = 0;
  const found = (): Destination[] => {
    const ranked = all.flatMap((one) => {
      const points = rank(one.title, input.value);
      return points === null ? [] : [{ one, points }];
    });
    ranked.sort((a, b) => a.points - b.points);
    return ranked.slice(0, SHOWN).map(({ one }) => one);
  };
  const draw = (): void => {
    const shown = found();
    chosen = Math.min(chosen, Math.max(0, shown.length - 1));
    list.replaceChildren(...shown.map((one, at) => {
      const item = document.createElement('li');
      item.id = `palette-${at}`;
      item.setAttribute('role', 'option');
      item.setAttribute('aria-selected', String(at === chosen));
      const link = document.createElement('a');
      link.href = one.to;
      link.tabIndex = -1;
      link.textContent = one.title;
      item.append(link);
      return item;
    }));
    input.setAttribute('aria-activedescendant', `palette-${chosen}`);
  };
  const open = (): void => {
    input.value = '';
    chosen = 0;
    dialog.showModal();
    fetch('/palette').then(async (answer) => { all = await answer.json() as Destination[]; draw(); }, () => undefined);
    draw();
  };
  input.addEventListener('input', () => { chosen = 0; draw(); });
  input.addEventListener('keydown', (event) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      chosen = Math.max(0, Math.min(chosen + step, list.children.length - 1));
      draw();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const one = found()[chosen];
      if (one) location.assign(one.to);
    }
  });
  opener.hidden = false;
  opener.addEventListener('click', open);
  return open;
}
