import { html, json, raw } from '@acme/shared/html';
import { formatMoney } from '@acme/shared/domain/money';
import { STATUS } from '@acme/shared/domain/orders';

export const money = formatMoney;
export const csrfField = (view) => html`<input type="hidden" name="_csrf" value="${view.csrfToken}">`;
export const imageUrl = (view, image) => (image?.startsWith('/') ? view.webUrl + image : image ? `/media/${image}` : '/static/no-image.svg');
export const when = (value) => (value ? new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: 'UTC' }).format(new Date(value)) : '–');
export const day = (value) => new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric', year: 'numeric', timeZone: 'UTC' }).format(new Date(value));
export const badge = (status) => html`<span class="badge ${status}">${STATUS[status] ?? status}</span>`;
export const adminOnly = (view) => (view.isAdmin ? '' : raw(' disabled title="Only for admins"'));

const icons = {
  home: '<path d="M4 11 12 4l8 7v9h-5v-6H9v6H4z"/>', orders: '<path d="M6 3h12v18l-3-2-3 2-3-2-3 2z"/><path d="M9.500 8h5M9.500 12h5"/>',
  products: '<path d="m12 3 8 4.500v9L12 21l-8-4.500v-9z"/><path d="m4 7.500 8 4.500 8-4.500M12 12v9"/>', users: '<circle cx="9" cy="8" r="3.500"/><path d="M2.500 20c.800-4 3.500-5.500 6.500-5.500s5.700 1.500 6.500 5.500M16 5a3.500 3.500 0 0 1 0 6.500M18 14.800c2 .700 3.200 2.300 3.700 5.200"/>',
  report: '<path d="M5 20V10M12 20V4M19 20v-7"/>', money: '<rect x="3" y="6" width="18" height="12" rx="2"/><circle cx="12" cy="12" r="2.500"/>', jobs: '<circle cx="12" cy="12" r="8.500"/><path d="M12 7v5l3.500 2"/>',
};
const icon = (name) => raw(`<svg viewBox="0 0 24 24" width="20" height="20" fill="none" stroke="currentColor" stroke-width="1.700" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${icons[name]}</svg>`);
const NAV = [['/', 'Overview', 'home'], ['/orders', 'Orders', 'orders'], ['/products', 'Products', 'products'], ['/users', 'People', 'users'], ['/reports/sell-through', 'Report', 'report'], ['/settlements', 'Settlement', 'money'], ['/jobs', 'Jobs', 'jobs']];

const head = (title) => html`<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title} · Acme back office</title>
<meta name="robots" content="noindex"><link rel="icon" href="/static/icon.svg" type="image/svg+xml"><link rel="stylesheet" href="/static/admin.css"></head>`;

export function layout(view, { title, side }, body) {
  return html`<html lang="en">${head(title)}<body>
<header class="side"><a class="mark" href="/">acme<span>back office</span></a>
<nav>${NAV.map(([href, name, symbol]) => html`<a href="${href}"${(href === '/' ? view.path === '/' : view.path.startsWith(href)) ? raw(' aria-current="page"') : ''}>${icon(symbol)}<span>${name}</span></a>`)}</nav>
<div class="me"><p><b>${view.user.name}</b><small>${view.user.role}</small></p><form method="post" action="/logout">${csrfField(view)}<button class="link">Log out</button></form></div></header>
<main><div class="titlebar"><h1>${title}</h1>${side}</div>
${view.flash && html`<p class="notice ${view.flash.kind}" role="status">${view.flash.text}</p>`}${body}</main>
<script type="application/json" id="page">${json({ ...view.browser, visitor: view.visitor, csrf: view.csrfToken, user: { id: view.user.id } })}</script><script type="module" src="/static/app.js"></script></body></html>`;
}

export const loginPage = (view, { next, problem, email = '' }) => html`<html lang="en">${head('Log in')}<body class="door"><main><a class="mark" href="/">acme<span>back office</span></a>
<form method="post" action="/login" class="panel">${csrfField(view)}<input type="hidden" name="next" value="${next}"><h1>Log in</h1>${problem && html`<p class="notice error" role="alert">${problem}</p>`}
<label>Mail address<input name="email" type="email" autocomplete="username" required value="${email}"></label><label>Password<input name="password" type="password" autocomplete="current-password" required></label><button class="button">Log in</button></form></main></body></html>`;

export const errorPage = ({ status, message, reference }) => html`<html lang="en">${head(String(status))}<body class="door"><main><a class="mark" href="/">acme<span>back office</span></a>
<div class="panel"><h1>${status === 404 ? 'Not found' : status === 403 ? 'Not allowed' : status === 413 ? 'Too large' : status === 503 ? 'Not available' : 'Something went wrong'}</h1><p>${message}</p>${status >= 500 && html`<p class="quiet">Reference <code>${reference}</code></p>`}<p><a class="button" href="/">Overview</a></p></div></main></body></html>`;
