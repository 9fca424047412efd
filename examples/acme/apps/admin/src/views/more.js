import { html, raw } from '@acme/shared/html';
import { adminOnly, csrfField, day, layout, money, when } from './layout.js';

export const usersPage = (view, { users }) => layout(view, { title: 'People' }, html`<div class="panel table"><table><thead><tr><th>Name</th><th>Role</th><th>Last login</th><th class="num">Orders</th><th class="num">Spent</th><th></th></tr></thead><tbody>
${users.map((u) => html`<tr class="${u.disabled_at ? 'off' : ''}"><td><b>${u.name}</b><small>${u.email}</small></td><td data-label="Role">${u.id === view.user.id ? u.role : html`<form method="post" action="/users/${u.id}">${csrfField(view)}<select name="role" aria-label="Role of ${u.name}" data-submit${adminOnly(view)}>${['customer', 'support', 'admin'].map((role) => html`<option${role === u.role ? raw(' selected') : ''}>${role}</option>`)}</select><noscript><button class="link">Set</button></noscript></form>`}</td><td data-label="Last login">${when(u.last_login_at)}</td><td class="num" data-label="Orders">${u.orders}</td><td class="num" data-label="Spent">${money(u.spent_cents)}</td><td>${u.id === view.user.id ? html`<span class="quiet">you</span>` : html`<form method="post" action="/users/${u.id}">${csrfField(view)}<input type="hidden" name="disabled" value="${u.disabled_at ? 'no' : 'yes'}"><button class="link"${adminOnly(view)}>${u.disabled_at ? 'Enable' : 'Disable'}</button></form>`}</td></tr>`)}</tbody></table></div>`);

function spark(values) {
  const most = Math.max(1, ...values);
  const step = 140 / Math.max(1, values.length - 1);
  const points = values.map((n, i) => `${(i * step).toFixed(1)},${(30 - (n / most) * 26).toFixed(1)}`).join(' ');
  return raw(`<svg class="spark" viewBox="0 -2 140 36" width="140" height="36" aria-hidden="true"><polyline points="${points}" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round"/></svg>`);
}

export function reportPage(view, { rows, days, tookMs }) {
  const tab = (n) => html`<a href="/reports/sell-through?days=${n}"${days === n ? raw(' aria-current="true"') : ''}>${n} days</a>`;
  return layout(view, { title: 'Sell-through', side: html`<nav class="tabs tight">${tab(7)}${tab(30)}</nav>` }, html`<div class="panel table"><table><thead><tr><th>Product</th><th>Sold per day</th><th class="num">Sold</th><th class="num">Revenue</th><th class="num">Stock</th><th class="num">Lasts</th></tr></thead><tbody>
${rows.map((r) => html`<tr><td><b>${r.name}</b></td><td data-label="Per day">${spark(r.perDay)}</td><td class="num" data-label="Sold">${r.sold}</td><td class="num" data-label="Revenue">${money(r.revenueCents)}</td><td class="num" data-label="Stock">${r.stock}</td><td class="num" data-label="Lasts">${r.daysOfStock === null ? '–' : `${r.daysOfStock} d`}</td></tr>`)}</tbody></table></div><p class="quiet foot">Computed in ${(tookMs / 1000).toFixed(1)} s.</p>`);
}

export const settlementsPage = (view, { settlements }) => layout(view, { title: 'Settlement', side: html`<form method="post" action="/settlements" class="inline">${csrfField(view)}<input type="date" name="day" aria-label="Day"><button class="button light"${adminOnly(view)}>Settle a day</button></form>` }, html`
${settlements.length ? html`<div class="panel table"><table><thead><tr><th>Day</th><th class="num">Payments</th><th class="num">Gross</th><th class="num">Refunded</th><th class="num">Tax</th><th class="num">Net</th><th class="num">Released</th></tr></thead><tbody>
${settlements.map((s) => html`<tr><td><b>${day(s.day)}</b></td><td class="num" data-label="Payments">${s.payments}</td><td class="num" data-label="Gross">${money(s.gross_cents)}</td><td class="num" data-label="Refunded">${money(s.refunded_cents)}</td><td class="num" data-label="Tax">${money(s.tax_cents)}</td><td class="num" data-label="Net"><b>${money(s.net_cents)}</b></td><td class="num" data-label="Released">${s.released}</td></tr>`)}</tbody></table></div>` : html`<div class="panel"><p class="quiet">No day was settled yet. It happens every night.</p></div>`}`);

export function jobsPage(view, { ready, delayed, dead, done, workers, delayedJobs, deadJobs }) {
  const table = (jobs, last, cell) => html`<div class="table"><table><thead><tr><th>Job</th><th>Reason</th><th class="num">Attempts</th><th>${last}</th></tr></thead><tbody>${jobs.map((j) => html`<tr><td><b>${j.type}</b><small>${Object.values(j.data).join(', ')}</small></td><td class="reason" data-label="Reason">${j.lastError ?? '–'}</td><td class="num" data-label="Attempts">${j.attempts}</td><td data-label="${last}">${cell(j)}</td></tr>`)}</tbody></table></div>`;
  const tile = (label, value, tone = '') => html`<div class="tile ${tone}"><span>${label}</span><b>${value}</b></div>`;
  return layout(view, { title: 'Jobs' }, html`<div class="tiles five">${tile('Ready', ready)}${tile('Waiting to retry', delayed)}${tile('Failed', dead, dead ? 'warn' : '')}${tile('Done', done)}${tile('Workers', workers)}</div>
<div class="stack"><section class="panel"><h2>Waiting to retry</h2>${delayedJobs.length ? table(delayedJobs, 'Next attempt', (j) => when(j.nextAttemptAt)) : html`<p class="quiet">Nothing is waiting.</p>`}</section>
<section class="panel"><h2>Failed for good</h2>${deadJobs.length ? table(deadJobs, 'Action', (j) => html`<form method="post" action="/jobs/${j.id}/retry">${csrfField(view)}<button class="button light small"${adminOnly(view)}>Try again</button></form>`) : html`<p class="quiet">No failed jobs.</p>`}</section></div>`);
}
