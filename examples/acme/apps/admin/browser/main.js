import * as Sentry from '@sentry/browser';
import posthog from 'posthog-js';

const page = JSON.parse(document.getElementById('page')?.textContent ?? '{}');

if (page.sentryDsn) {
  Sentry.init({ dsn: page.sentryDsn, environment: page.environment, release: page.release, initialScope: { tags: { app: 'admin' } } });
  Sentry.setUser({ id: String(page.user.id) });
}
if (page.posthogKey) {
  posthog.init(page.posthogKey, {
    api_host: page.posthogHost,
    bootstrap: { distinctID: page.visitor },
    persistence: 'localStorage+cookie',
    autocapture: false,
    disable_session_recording: true,
    disable_external_dependency_loading: true,
    disable_surveys: true,
    // Our own checks run in a headless browser; they are told apart in PostHog, not dropped here.
    opt_out_useragent_filter: true,
  });
}

for (const input of document.querySelectorAll('[data-submit]')) input.addEventListener('change', () => input.form.requestSubmit());

for (const form of document.querySelectorAll('[data-confirm]')) {
  form.addEventListener('submit', (event) => {
    if (!window.confirm(form.dataset.confirm)) event.preventDefault();
  });
}

// The writing assistant fills the text field; nothing is saved before "Save".
for (const box of document.querySelectorAll('[data-assist]')) {
  const button = box.querySelector('button');
  const status = box.querySelector('[role="status"]');
  button.addEventListener('click', async () => {
    button.disabled = true;
    status.textContent = 'Writing…';
    try {
      const response = await fetch(box.dataset.assist, {
        method: 'POST',
        headers: { accept: 'application/json', 'content-type': 'application/json', 'x-csrf-token': page.csrf },
        body: JSON.stringify({ hint: box.querySelector('input').value }),
      });
      const answer = await response.json();
      if (!response.ok) throw new Error(answer.error?.message ?? 'That did not work.');
      document.querySelector('[data-text]').value = answer.text;
      status.textContent = 'Done. Please read it before you save.';
    } catch (error) {
      Sentry.captureException(error);
      status.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  });
}
