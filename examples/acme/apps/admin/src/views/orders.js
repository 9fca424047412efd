import { html, raw } from '@acme/shared/html';
import { STATUS } from '@acme/shared/domain/orders';
import { adminOnly, badge, csrfField, imageUrl, layout, money, when } from './layout.js';

export function ordersPage(view, { orders, counts }, request) {
  const { status = '', q = '' } = request.query;
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
  const tab = (value, name, n) => html`<a href="/orders${value ? `?status=${value}` : ''}"${status === value ? raw(' aria-current="true"') : ''}>${name} <small>${n ?? 0}</small></a>`;
  return layout(view, { title: 'Orders', side: html`<form class="find" action="/orders"><input type="search" name="q" value="${q}" placeholder="Number, name or mail" aria-label="Search orders"></form>` }, html`
<nav class="tabs">${tab('', 'All', total)}${Object.entries(STATUS).map(([value, name]) => tab(value, name, counts[value]))}</nav>
${orders.length ? html`<div class="panel table"><table><thead><tr><th>Order</th><th>Customer</th><th>Placed</th><th>Status</th><th class="num">Items</th><th class="num">Total</th></tr></thead><tbody>
${orders.map((o) => html`<tr><td data-label="Order"><a href="/orders/${o.number}"><b>${o.number}</b></a></td><td data-label="Customer">${o.customerName}<small>${o.email}</small></td><td data-label="Placed">${when(o.placedAt)}</td><td data-label="Status">${badge(o.status)}</td><td class="num" data-label="Items">${o.itemCount}</td><td class="num" data-label="Total">${money(o.totalCents)}</td></tr>`)}</tbody></table></div>` : html`<div class="panel"><p class="quiet">No orders here.</p></div>`}`);
}

export function orderPage(view, { order, notes, ledger, events }) {
  const act = (action, label, { kind = 'light', admin = false, body = '', confirm } = {}) => html`<form method="post" action="/orders/${order.number}/${action}"${confirm ? html` data-confirm="${confirm}"` : ''}>${csrfField(view)}${body}<button class="button ${kind}"${admin ? adminOnly(view) : ''}>${label}</button></form>`;
  const a = order.address;
  const line = (label, cents) => html`<tr><td colspan="3">${label}</td><td class="num">${money(cents)}</td></tr>`;
  return layout(view, { title: `Order ${order.number}`, side: badge(order.status) }, html`
<div class="two wide"><div class="stack"><section class="panel table"><table class="still"><thead><tr><th colspan="2">Item</th><th class="num">Quantity</th><th class="num">Amount</th></tr></thead><tbody>
${order.items.map((i) => html`<tr><td class="pic"><img src="${imageUrl(view, i.image)}" alt="" width="48" height="48"></td><td>${i.name}<small>${money(i.unitPriceCents)} each</small></td><td class="num">${i.quantity}</td><td class="num">${money(i.unitPriceCents * i.quantity)}</td></tr>`)}
${line('Subtotal', order.subtotalCents)}${order.discountCents > 0 && line(`Discount ${order.couponCode ?? ''}`, -order.discountCents)}${line(`Delivery, ${order.shippingMethod}`, order.shippingCents)}${line(`Sales tax${order.taxSource === 'fallback' ? ' (own table)' : ''}`, order.taxCents)}
<tr class="sum"><td colspan="3">Total</td><td class="num">${money(order.totalCents)}</td></tr></tbody></table></section>
<section class="panel"><h2>Notes</h2>${notes.length ? html`<ul class="notes">${notes.map((n) => html`<li><p>${n.text}</p><small>${n.author}, ${when(n.created_at)}</small></li>`)}</ul>` : html`<p class="quiet">None yet.</p>`}
<form method="post" action="/orders/${order.number}/notes" class="inline">${csrfField(view)}<input name="text" maxlength="1000" placeholder="Write a note" aria-label="Note" required><button class="button light">Add</button></form></section></div>
<div class="stack"><section class="panel"><h2>What next</h2><div class="actions">
${order.status === 'payment_pending' && html`${act('mark-paid', 'Record a bank transfer', { kind: '', admin: true })}${act('cancel', 'Cancel the order', { admin: true, confirm: 'Cancel this order and release its stock?' })}`}
${order.status === 'paid' && html`${act('ship', 'Mark as shipped', { kind: '', body: html`<input name="trackingNumber" placeholder="Tracking number" aria-label="Tracking number" maxlength="60">` })}${order.hasCarrierRate && act('ship', 'Buy a label and ship', { body: raw('<input type="hidden" name="buyLabel" value="1">') })}`}
${['paid', 'shipped'].includes(order.status) && html`${act('resend-receipt', 'Send the receipt again')}${act('refund', 'Refund in full', { kind: 'danger', admin: true, confirm: `Refund ${money(order.totalCents)}?` })}`}
${['refunded', 'cancelled'].includes(order.status) && html`<p class="quiet">This order is closed.</p>`}</div></section>
<section class="panel"><h2>Customer</h2><p>${a.name}<br>${a.street}<br>${a.city}, ${a.state} ${a.zip}<br>${a.country}</p><p><a href="mailto:${order.email}">${order.email}</a></p>${order.trackingNumber && html`<p class="quiet">Tracking ${order.trackingNumber}</p>`}</section>
<section class="panel"><h2>Payment</h2><dl><div><dt>Placed</dt><dd>${when(order.placedAt)}</dd></div><div><dt>Paid</dt><dd>${order.paidAt ? `${when(order.paidAt)}, ${order.paymentMethod}` : '–'}</dd></div><div><dt>Attempts</dt><dd>${order.paymentAttempts}</dd></div>${order.paymentIntent && html`<div><dt>Intent</dt><dd><code>${order.paymentIntent}</code></dd></div>`}<div><dt>Receipt</dt><dd>${order.receiptSentAt ? when(order.receiptSentAt) : 'not sent'}</dd></div><div><dt>Invoice</dt><dd>${order.hasInvoice ? html`<a href="/orders/${order.number}/invoice">open</a>` : 'not stored'}</dd></div>
${ledger.map((e) => html`<div><dt>Ledger, ${e.kind}</dt><dd>${money(e.amount_cents)}, ${e.posted_at ? 'posted' : 'on hold'}</dd></div>`)}${events.map((e) => html`<div><dt>${e.type}</dt><dd>${when(e.received_at)}</dd></div>`)}</dl>${order.paymentError && html`<p class="bad">${order.paymentError}</p>`}</section></div></div>`);
}
