import { html, json, raw } from '@acme/shared/html';
import { formatMoney } from '@acme/shared/domain/money';
import { FREE_SHIPPING_FROM_CENTS } from '@acme/shared/domain/pricing';

export const money = formatMoney;
export const imageUrl = (image) => (image?.startsWith('/') ? image : image ? `/media/${image}` : '/static/no-image.svg');
export const csrfField = (view) => html`<input type="hidden" name="_csrf" value="${view.csrfToken}">`;
export const date = (value) => new Intl.DateTimeFormat('en-US', { dateStyle: 'long', timeZone: 'UTC' }).format(new Date(value));

const icons = {
  bag: '<path d="M5 8h14l-1 12H6L5 8Z"/><path d="M9 8V6a3 3 0 0 1 6 0v2"/>',
  user: '<circle cx="12" cy="8" r="4"/><path d="M4.5 20c1-4 4-6 7.500-6s6.500 2 7.500 6"/>',
  search: '<circle cx="11" cy="11" r="6.500"/><path d="m16 16 4.500 4.500"/>',
  check: '<path d="m5 12.500 4.500 4.500L19 7.500"/>',
  truck: '<path d="M3 6h11v10H3zM14 10h4l3 3v3h-7z"/><circle cx="7.500" cy="17.500" r="1.800"/><circle cx="17" cy="17.500" r="1.800"/>',
  leaf: '<path d="M5 19C5 9 12 5 20 5c0 9-5 14-12 13M5 19c2-5 5-8 9-9"/>',
  return: '<path d="M4 9h11a5 5 0 0 1 0 10H9"/><path d="m8 5-4 4 4 4"/>',
  menu: '<path d="M4 8h16M4 16h16"/>',
};
export const icon = (name) =>
  raw(`<svg class="icon" viewBox="0 0 24 24" width="22" height="22" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${icons[name]}</svg>`);

const CATEGORIES = [['light', 'Light'], ['table', 'Table'], ['living', 'Living'], ['study', 'Study']];

const head = (title, description) => html`<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>${description && html`<meta name="description" content="${description}">`}
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="preload" href="/static/fonts/dm-sans.woff2" as="font" type="font/woff2" crossorigin>
<link rel="preload" href="/static/fonts/fraunces.woff2" as="font" type="font/woff2" crossorigin>
<link rel="stylesheet" href="/static/styles.css"></head>`;

const wordmark = html`<a class="wordmark" href="/">acme<span>goods</span></a>`;

export function layout(view, { title, description, current, narrow = false }, body) {
  const links = CATEGORIES.map(([slug, name]) => html`<a href="/shop?category=${slug}"${current === slug ? raw(' aria-current="page"') : ''}>${name}</a>`);
  return html`<html lang="en">${head(title ? `${title} · Acme Goods` : 'Acme Goods: well-made things for the home', description)}
<body>
<a class="skip" href="#main">Skip to content</a>
${view.flags?.freeShipping && html`<p class="banner">${icon('truck')} Free standard delivery on orders over ${money(FREE_SHIPPING_FROM_CENTS)}</p>`}
<header class="top"><div class="wrap">
<details class="menu"><summary aria-label="Menu">${icon('menu')}</summary><nav aria-label="Menu"><a href="/shop">Everything</a>${links}</nav></details>
${wordmark}
<nav class="links" aria-label="Categories"><a href="/shop"${current === 'all' ? raw(' aria-current="page"') : ''}>Everything</a>${links}</nav>
<form class="find" action="/shop" role="search"><label class="hidden" for="q">Search</label>${icon('search')}<input id="q" name="q" type="search" placeholder="Search" maxlength="80" value="${view.search ?? ''}"></form>
<a class="tool" href="${view.user ? '/account' : '/login'}">${icon('user')}<span class="hidden">${view.user ? `Account of ${view.user.name}` : 'Log in'}</span></a>
<a class="tool" href="/cart">${icon('bag')}<span class="count" data-cart-count${view.cartCount ? '' : raw(' hidden')}>${view.cartCount}</span><span class="hidden">Cart</span></a>
</div></header>
${view.flash && html`<div class="wrap"><p class="notice ${view.flash.kind}" role="status">${view.flash.text}</p></div>`}
<main id="main" class="wrap${narrow ? ' narrow' : ''}">${body}</main>
<footer class="bottom"><div class="wrap"><div>${wordmark}<p>Well-made things for the home, from a small workshop in Portland, Oregon.</p></div>
<nav aria-label="Shop"><h2>Shop</h2><a href="/shop">Everything</a>${links}</nav>
<nav aria-label="Help"><h2>Help</h2><a href="/account">Your orders</a><a href="/cart">Your cart</a><a href="mailto:hello@acme.example">hello@acme.example</a></nav></div></footer>
<script type="application/json" id="page">${json({ ...view.browser, visitor: view.visitor, csrf: view.csrfToken, user: view.user ? { id: view.user.id } : null })}</script>
<script type="module" src="/static/app.js"></script>
</body></html>`;
}

/** Works without a session: it is shown when the API is away, too. */
export function errorPage({ status, message, reference }) {
  const title = status === 404 ? 'Not here' : status === 403 ? 'Please try again' : status === 503 ? 'Back in a moment' : status < 500 ? 'That did not work' : 'Something went wrong';
  return html`<html lang="en">${head(`${title} · Acme Goods`)}
<body class="plain"><header class="top"><div class="wrap">${wordmark}</div></header>
<main id="main" class="wrap narrow sorry"><p class="big">${status}</p><h1>${title}</h1><p>${message}</p>
${status >= 500 && html`<p class="quiet">If you write to us about this, please mention <code>${reference}</code>.</p>`}
<p><a class="button" href="/">Back to the shop</a></p></main></body></html>`;
}

export const field = (name, label, { value = '', problem, type = 'text', wide = false, ...rest } = {}) => html`<div class="field${wide ? ' wide' : ''}">
<label for="${name}">${label}</label>
<input id="${name}" name="${name}" type="${type}" value="${value ?? ''}"${Object.entries(rest).map(([key, v]) => (v === true ? html` ${key}` : html` ${key}="${v}"`))}${problem ? html` aria-invalid="true" aria-describedby="${name}-problem"` : ''}>
${problem && html`<p class="problem" id="${name}-problem">${problem}</p>`}</div>`;

export const addressFields = (values, problems = {}) => html`
${field('name', 'Full name', { value: values.name, problem: problems.name, autocomplete: 'name', required: true, maxlength: 80, wide: true })}
${field('street', 'Street and number', { value: values.street, problem: problems.street, autocomplete: 'street-address', required: true, maxlength: 120, wide: true })}
${field('city', 'City', { value: values.city, problem: problems.city, autocomplete: 'address-level2', required: true, maxlength: 80, wide: true })}
${field('state', 'State', { value: values.state, problem: problems.state, autocomplete: 'address-level1', required: true, maxlength: 2, placeholder: 'OR' })}
${field('zip', 'Postcode', { value: values.zip, problem: problems.zip, autocomplete: 'postal-code', required: true, maxlength: 10 })}
<div class="field wide"><label for="country">Country</label><select id="country" name="country" autocomplete="country">
${[['US', 'United States'], ['CA', 'Canada']].map(([code, name]) => html`<option value="${code}"${values.country === code ? raw(' selected') : ''}>${name}</option>`)}</select>
${problems.country && html`<p class="problem">${problems.country}</p>`}</div>`;
