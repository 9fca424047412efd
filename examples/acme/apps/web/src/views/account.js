import { html } from '@acme/shared/html';
import { STATUS } from '@acme/shared/domain/orders';
import { addressFields, csrfField, date, field, layout, money } from './layout.js';

const gate = (view, { title, action, next, problem, button, other }, fields) => layout(view, { title, narrow: true }, html`
<form method="post" action="${action}" class="panel form gate">${csrfField(view)}<input type="hidden" name="next" value="${next}"><h1>${title}</h1>
${problem && html`<p class="notice error" role="alert">${problem}</p>`}<div class="fields">${fields}</div><button class="button wide">${button}</button><p class="quiet">${other}</p></form>`);

export const loginPage = (view, { next, problem, values = {} }) => gate(
  view, { title: 'Welcome back', action: '/login', next, problem, button: 'Log in', other: html`New here? <a href="/register?next=${encodeURIComponent(next)}">Make an account</a>` },
  html`${field('email', 'Mail address', { type: 'email', value: values.email, autocomplete: 'username', required: true, wide: true })}${field('password', 'Password', { type: 'password', autocomplete: 'current-password', required: true, wide: true })}`,
);

export const registerPage = (view, { next, problem, values = {} }) => gate(
  view, { title: 'Make an account', action: '/register', next, problem, button: 'Make an account', other: html`Have one? <a href="/login?next=${encodeURIComponent(next)}">Log in</a>` },
  html`${field('name', 'Name', { value: values.name, autocomplete: 'name', required: true, maxlength: 80, wide: true })}${field('email', 'Mail address', { type: 'email', value: values.email, autocomplete: 'username', required: true, wide: true })}${field('password', 'Password, at least 10 characters', { type: 'password', autocomplete: 'new-password', required: true, minlength: 10, wide: true })}`,
);

export function accountPage(view, { user, orders, values, problems = {} }) {
  return layout(view, { title: 'Account' }, html`<div class="heading page"><h1>Hello, ${user.name.split(' ')[0]}</h1><form method="post" action="/logout">${csrfField(view)}<button class="button light">Log out</button></form></div>
<div class="columns"><section class="panel"><h2>Your orders</h2>${orders.length ? html`<ul class="orders">${orders.map((o) => html`<li><a href="/orders/${o.number}"><b>${o.number}</b><span class="quiet">${date(o.placedAt)}</span><span class="status ${o.status}">${STATUS[o.status]}</span><b class="price">${money(o.totalCents)}</b></a></li>`)}</ul>` : html`<p class="quiet">Nothing here yet. <a href="/shop">Look around</a>.</p>`}</section>
<form method="post" action="/account" class="panel form">${csrfField(view)}<h2>Your details</h2><p class="quiet">${user.email}</p><div class="fields">${addressFields(values ?? { country: 'US', ...user.address, name: user.name }, problems)}</div><button class="button">Save</button></form></div>`);
}
