// Small things that every page has.

/** Shows times in the reader's own zone. */
export function localTimes(main: HTMLElement): void {
  for (const element of main.querySelectorAll<HTMLTimeElement>('time[datetime]')) {
    const time = new Date(element.dateTime);
    if (Number.isNaN(time.getTime())) continue;
    element.textContent = time.toLocaleTimeString([], { hour12: false });
    element.title = time.toLocaleString();
  }
}

/** Shows the section that the page is about, where the sections are one line that scrolls. */
export function showSection(main: HTMLElement): void {
  const here = main.querySelector<HTMLElement>('.sections [aria-current]');
  const line = here?.parentElement;
  if (!here || !line) return;
  const inside = here.getBoundingClientRect().left - line.getBoundingClientRect().left;
  line.scrollLeft += inside - (line.clientWidth - here.offsetWidth) / 2;
}

/** Asks before a form does what cannot be undone, or loosens something. */
export function confirmForms(): void {
  const dialog = document.getElementById('sure');
  const text = document.getElementById('sure-text');
  if (!(dialog instanceof HTMLDialogElement) || !text) return;
  document.addEventListener('submit', (event) => {
    const button = event.submitter;
    const question = button instanceof HTMLElement ? button.dataset['confirm'] : undefined;
    if (!question || !(event.target instanceof HTMLFormElement) || !(button instanceof HTMLButtonElement)) return;
    event.preventDefault();
    const form = event.target;
    text.textContent = question;
    dialog.returnValue = 'no';
    // Updates wait meanwhile: they would take the form away. One that is sent leads to another page.
    dialog.classList.add('asked');
    dialog.addEventListener('close', () => {
      if (dialog.returnValue !== 'yes') {
        dialog.classList.remove('asked');
        return;
      }
      delete button.dataset['confirm'];
      form.requestSubmit(button);
    }, { once: true });
    dialog.showModal();
  });
}

/** Lays two pictures over each other, with a slider between them and a switch that shows what differs. */
export function sliders(): void {
  document.querySelectorAll<HTMLElement>('[data-slider]').forEach((shots, at) => {
    const over = shots.querySelectorAll('img')[1];
    if (!over) return;
    const slider = document.createElement('input');
    Object.assign(slider, { type: 'range', min: '0', max: '100', value: '50', id: `slider-${at}` });
    slider.setAttribute('aria-label', 'How much of the left picture is seen');
    const cut = (): void => { over.style.clipPath = shots.classList.contains('difference') ? '' : `inset(0 0 0 ${slider.value}%)`; };
    const choices = [['beside', 'Side by side'], ['over', 'Slider'], ['difference', 'Difference']] as const;
    const buttons = choices.map(([kind, title]) => {
      const button = document.createElement('button');
      Object.assign(button, { type: 'button', textContent: title });
      button.addEventListener('click', () => choose(kind));
      return button;
    });
    const choose = (kind: string): void => {
      shots.classList.toggle('over', kind !== 'beside');
      shots.classList.toggle('difference', kind === 'difference');
      slider.hidden = kind !== 'over';
      buttons.forEach((button, which) => button.setAttribute('aria-pressed', String(choices[which]?.[0] === kind)));
      if (kind === 'beside') over.style.clipPath = ''; else cut();
    };
    const controls = document.createElement('div');
    controls.className = 'modes';
    controls.append(...buttons, slider);
    shots.before(controls);
    slider.addEventListener('input', cut);
    choose('beside');
  });
}

/** Copies the text of an element. */
export function copyButtons(): void {
  document.addEventListener('click', (event) => {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-copy]') : null;
    const from = button && document.getElementById(button.dataset['copy'] ?? '');
    if (!button || !from) return;
    navigator.clipboard.writeText(from.textContent ?? '').then(
      () => { button.textContent = 'Copied'; },
      () => { button.textContent = 'Not copied'; },
    );
  });
}
