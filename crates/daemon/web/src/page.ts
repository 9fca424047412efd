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
    dialog.addEventListener('close', () => {
      if (dialog.returnValue !== 'yes') return;
      delete button.dataset['confirm'];
      form.requestSubmit(button);
    }, { once: true });
    dialog.showModal();
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
