import { html, raw } from '@acme/shared/html';
import { layout, money } from './layout.js';

function chart(days) {
  const most = Math.max(1, ...days.map((d) => d.cents));
  const bars = days.map((d, i) => {
    const height = Math.max(2, Math.round((d.cents / most) * 150));
    const label = new Date(d.day).getUTCDate();
    return `<g><title>${d.day}: ${money(d.cents)}, ${d.orders} orders</title><rect x="${i * 50 + 8}" y="${160 - height}" width="34" height="${height}" rx="5" class="${i === days.length - 1 ? 'now' : ''}"/><text x="${i * 50 + 25}" y="182" text-anchor="middle">${label}</text></g>`;
  });
  return raw(`<svg class="chart" viewBox="0 0 700 190" role="img" aria-label="Sales of the last fourteen days">${bars.join('')}</svg>`);
}

export function dashboardPage(view, data) {
  const change = data.week_before_cents ? Math.round(((data.week_cents - data.week_before_cents) / data.week_before_cents) * 100) : null;
  const tile = (href, label, value, note, tone = '') => html`<a class="tile ${tone}" href="${href}"><span>${label}</span><b>${value}</b><small>${note}</small></a>`;
  return layout(view, { title: 'Overview' }, html`<div class="tiles">
${tile('/orders', 'Sales, seven days', money(data.week_cents), change === null ? 'no week to compare with' : `${change >= 0 ? '+' : ''}${change}% on the week before`)}
${tile('/orders?status=paid', 'To ship', data.to_ship, 'paid and waiting')}
${tile('/orders?status=payment_pending', 'Payment pending', data.pending, `${data.orders_today} orders in the last day`)}
${tile('/jobs', 'Failed jobs', data.jobs.dead, `${data.jobs.ready + data.jobs.delayed} in the queue, ${data.jobs.workers} ${data.jobs.workers === 1 ? 'worker' : 'workers'}`, data.jobs.dead ? 'warn' : '')}</div>
<div class="two"><section class="panel"><h2>Sales per day</h2>${chart(data.days)}</section>
<section class="panel"><h2>Running low</h2>${data.lowStock.length ? html`<ul class="rows">${data.lowStock.map((p) => html`<li><a href="/products/${p.id}">${p.name}</a><b class="${p.stock === 0 ? 'bad' : ''}">${p.stock === 0 ? 'sold out' : `${p.stock} left`}</b></li>`)}</ul>` : html`<p class="quiet">Everything is well stocked.</p>`}</section></div>`);
}
