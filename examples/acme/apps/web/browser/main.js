import * as Sentry from '@sentry/browser';
import posthog from 'posthog-js';

const page = JSON.parse(document.getElementById('page')?.textContent ?? '{}');

if (page.sentryDsn) {
  Sentry.init({ dsn: page.sentryDsn, environment: page.environment, release: page.release, initialScope: { tags: { app: 'web' } } });
  if (page.user) Sentry.setUser({ id: String(page.user.id) });
}
if (page.posthogKey) {
  posthog.init(page.posthogKey, {
    api_host: page.posthogHost,
    bootstrap: { distinctID: page.visitor },
    persistence: 'localStorage+cookie',
    disable_session_recording: true,
    disable_external_dependency_loading: true,
    disable_surveys: true,
    // Our own checks run in a headless browser; they are told apart in PostHog, not dropped here.
    opt_out_useragent_filter: true,
  });
}
const track = (event, properties) => page.posthogKey && posthog.capture(event, properties);

// Add to cart without leaving the page; the form works without this, too.
for (const form of document.querySelectorAll('[data-add]')) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = form.querySelector('button');
    const said = document.querySelector('[data-said]');
    const data = new FormData(form);
    button.disabled = true;
    try {
      const response = await fetch(form.action, {
        method: 'POST',
        headers: { accept: 'application/json', 'content-type': 'application/json', 'x-csrf-token': page.csrf },
        body: JSON.stringify({ slug: data.get('slug'), quantity: Number(data.get('quantity')) }),
      });
      const answer = await response.json();
      said.hidden = false;
      said.classList.toggle('problem', !response.ok);
      if (!response.ok) {
        said.textContent = answer.error?.message ?? 'That did not work. Please try again.';
        return;
      }
      said.replaceChildren('Added to your cart. ', Object.assign(document.createElement('a'), { href: '/cart', textContent: 'Go to the cart' }));
      for (const badge of document.querySelectorAll('[data-cart-count]')) {
        badge.textContent = answer.count;
        badge.hidden = answer.count === 0;
      }
      track('Add To Cart Clicked', { product: data.get('slug') });
    } catch (error) {
      Sentry.captureException(error);
      form.submit();
    } finally {
      button.disabled = false;
    }
  });
}

for (const input of document.querySelectorAll('[data-submit]')) {
  input.addEventListener('change', () => input.form.requestSubmit());
}

// A double click must not send twice.
for (const form of document.querySelectorAll('[data-once]')) {
  form.addEventListener('submit', () => {
    const button = form.querySelector('button');
    button.disabled = true;
    button.textContent = 'One moment…';
  });
}
window.addEventListener('pageshow', (event) => {
  if (event.persisted) window.location.reload();
});

// After the payment page: wait for the confirmation of the payment provider.
const waiting = document.querySelector('[data-poll]');
if (waiting) {
  const { order, key } = document.querySelector('[data-order]').dataset;
  let left = 30;
  const look = async () => {
    const response = await fetch(`/orders/${order}/status?key=${encodeURIComponent(key)}`, { headers: { accept: 'application/json' } }).catch(() => null);
    const status = response?.ok ? (await response.json()).status : waiting.dataset.poll;
    if (status !== waiting.dataset.poll) window.location.replace(`/orders/${order}?key=${encodeURIComponent(key)}`);
    else if ((left -= 1) > 0) setTimeout(look, 2000);
    else waiting.querySelector('p').textContent = 'We have not heard from the payment provider yet. We will write to you as soon as we do.';
  };
  look();
}
