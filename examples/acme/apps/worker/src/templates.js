import { html, safeUrl } from '@acme/shared/html';
import { formatMoney } from '@acme/shared/domain/money';

const date = (value) => new Intl.DateTimeFormat('en-US', { dateStyle: 'long', timeZone: 'UTC' }).format(value);
const orderUrl = (webUrl, order) => `${webUrl}/orders/${order.number}?key=${order.access_key}`;

const shell = (title, body) => html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title></head>
<body style="margin:0;background:#f5f1ea;font-family:Georgia,serif;color:#26221c">
<div style="max-width:560px;margin:0 auto;padding:32px 20px">
<p style="font-size:22px;letter-spacing:.02em;margin:0 0 24px">Acme Goods</p>
<div style="background:#fff;border-radius:12px;padding:28px">${body}</div>
<p style="font-size:13px;color:#7b7468;margin:20px 4px">Acme Goods, 1820 NW Thurman St, Portland, OR 97209</p>
</div></body></html>`;

const button = (url, text) =>
  html`<p style="margin:24px 0 0"><a href="${safeUrl(url)}" style="display:inline-block;background:#2f4a3c;color:#fff;text-decoration:none;padding:12px 20px;border-radius:999px;font-family:Arial,sans-serif;font-size:15px">${text}</a></p>`;

const amounts = (order) => [
  ['Subtotal', order.subtotal_cents],
  ...(order.discount_cents ? [[`Discount ${order.coupon_code ?? ''}`.trim(), -order.discount_cents]] : []),
  [`Delivery, ${order.shipping_method}`, order.shipping_cents],
  ['Sales tax', order.tax_cents],
];

const table = (order) => html`<table style="width:100%;border-collapse:collapse;font-size:15px;margin-top:20px">
${order.items.map((item) => html`<tr><td style="padding:8px 0;border-bottom:1px solid #eee7db">${item.quantity} × ${item.name}</td><td style="padding:8px 0;border-bottom:1px solid #eee7db;text-align:right">${formatMoney(item.unit_price_cents * item.quantity)}</td></tr>`)}
${amounts(order).map(([label, cents]) => html`<tr><td style="padding:6px 0;color:#7b7468">${label}</td><td style="padding:6px 0;text-align:right">${formatMoney(cents)}</td></tr>`)}
<tr><td style="padding:10px 0;font-weight:bold">Total</td><td style="padding:10px 0;text-align:right;font-weight:bold">${formatMoney(order.total_cents)}</td></tr>
</table>`;

export function receiptMail(order, webUrl) {
  const url = orderUrl(webUrl, order);
  return {
    to: order.email,
    subject: `Your receipt for order ${order.number}`,
    headers: { 'X-Acme-Order': order.number },
    text: [
      `Thank you for your order, ${order.address.name}.`, '',
      ...order.items.map((item) => `${item.quantity} x ${item.name}: ${formatMoney(item.unit_price_cents * item.quantity)}`),
      ...amounts(order).map(([label, cents]) => `${label}: ${formatMoney(cents)}`),
      `Total: ${formatMoney(order.total_cents)}`, '', `See your order: ${url}`,
    ].join('\n'),
    html: shell(`Receipt ${order.number}`, html`<h1 style="font-weight:normal;font-size:26px;margin:0 0 8px">Thank you, ${order.address.name}</h1>
<p style="margin:0;line-height:1.6">We have received your payment for order ${order.number} and are packing it now.</p>${table(order)}${button(url, 'See your order')}`),
  };
}

export function shippedMail(order, webUrl) {
  const url = orderUrl(webUrl, order);
  const tracking = order.tracking_number ? `Tracking number: ${order.tracking_number}` : 'It should be with you in a few days.';
  return {
    to: order.email,
    subject: `Order ${order.number} is on its way`,
    headers: { 'X-Acme-Order': order.number },
    text: `Your order ${order.number} has left our workshop.\n${tracking}\n\nSee your order: ${url}`,
    html: shell(`Order ${order.number}`, html`<h1 style="font-weight:normal;font-size:26px;margin:0 0 8px">On its way</h1>
<p style="margin:0;line-height:1.6">Your order ${order.number} has left our workshop. ${tracking}</p>${button(order.tracking_url ?? url, 'Follow your parcel')}`),
  };
}

export function welcomeMail(user, webUrl) {
  return {
    to: user.email,
    subject: 'Welcome to Acme Goods',
    text: `Hello ${user.name},\n\nyour account is ready. See it at ${webUrl}/account`,
    html: shell('Welcome', html`<h1 style="font-weight:normal;font-size:26px;margin:0 0 8px">Hello ${user.name}</h1>
<p style="margin:0;line-height:1.6">Your account is ready. Your orders and your address are kept there for next time.</p>${button(`${webUrl}/account`, 'Go to your account')}`),
  };
}

export function invoiceHtml(order) {
  const a = order.address;
  return String(html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Invoice ${order.number}</title>
<style>body{font:15px/1.5 Georgia,serif;color:#26221c;max-width:720px;margin:48px auto;padding:0 24px}h1{font-weight:normal}table{width:100%;border-collapse:collapse}td,th{padding:8px 0;border-bottom:1px solid #ddd;text-align:left}td:last-child,th:last-child{text-align:right}.meta{display:flex;justify-content:space-between;margin:32px 0}</style></head>
<body><h1>Invoice ${order.number}</h1>
<div class="meta"><div>Acme Goods<br>1820 NW Thurman St<br>Portland, OR 97209</div><div>${a.name}<br>${a.street}<br>${a.city}, ${a.state} ${a.zip}<br>${a.country}</div></div>
<p>Paid on ${date(order.paid_at ?? order.placed_at)} by ${order.payment_method ?? 'card'}.</p>
<table><tr><th>Item</th><th>Quantity</th><th>Price</th><th>Amount</th></tr>
${order.items.map((i) => html`<tr><td>${i.name}</td><td>${i.quantity}</td><td>${formatMoney(i.unit_price_cents)}</td><td>${formatMoney(i.unit_price_cents * i.quantity)}</td></tr>`)}
${amounts(order).map(([label, cents]) => html`<tr><td colspan="3">${label}</td><td>${formatMoney(cents)}</td></tr>`)}
<tr><th colspan="3">Total</th><th>${formatMoney(order.total_cents)}</th></tr></table></body></html>`);
}
