import { html, raw, safeUrl } from '@acme/shared/html';
import { STATUS } from '@acme/shared/domain/orders';
import { addressFields, csrfField, date, field, icon, imageUrl, layout, money } from './layout.js';

const totalsList = (totals, { coupon, shipping, tax } = {}) => html`<dl class="totals">
<div><dt>Subtotal</dt><dd>${money(totals.subtotalCents)}</dd></div>
${totals.discountCents > 0 && html`<div><dt>Discount${coupon ? ` (${coupon})` : ''}</dt><dd>−${money(totals.discountCents)}</dd></div>`}
${shipping !== undefined && html`<div><dt>Delivery</dt><dd>${totals.shippingCents === 0 ? 'Free' : money(totals.shippingCents)}</dd></div>`}
${tax !== undefined && html`<div><dt>Sales tax${tax ? ' (estimated)' : ''}</dt><dd>${money(totals.taxCents)}</dd></div>`}
<div class="sum"><dt>Total</dt><dd>${money(totals.totalCents)}</dd></div></dl>`;

const miniLines = (lines) => html`<ul class="mini">${lines.map((line) => html`<li><img src="${imageUrl(line.image)}" alt="" width="64" height="64"><span>${line.name}<small>${line.quantity} × ${money(line.unitPriceCents)}</small></span><b>${money(line.unitPriceCents * line.quantity)}</b></li>`)}</ul>`;

const steps = (at) => html`<ol class="steps">${['Cart', 'Address', 'Delivery', 'Payment'].map((name, i) => html`<li${i === at ? raw(' aria-current="step"') : ''} class="${i < at ? 'done' : ''}">${name}</li>`)}</ol>`;

export function cartPage(view, cart) {
  if (!cart.lines.length) {
    return layout(view, { title: 'Cart', narrow: true }, html`<div class="empty"><h1>Your cart is empty</h1><p>Good things take time. Have a look around.</p><p><a class="button" href="/shop">See everything</a></p></div>`);
  }
  const blocked = cart.lines.some((line) => !line.available);
  return layout(view, { title: 'Cart' }, html`<div class="heading page"><h1>Your cart</h1></div>
<div class="columns"><ul class="lines">${cart.lines.map((line) => html`<li>
<a class="thumb" href="/products/${line.slug}"><img src="${imageUrl(line.image)}" alt="" width="120" height="120"></a>
<div class="what"><h2><a href="/products/${line.slug}">${line.name}</a></h2><p class="quiet">${money(line.unitPriceCents)}</p>
${!line.available && html`<p class="problem">${line.stock === 0 ? 'Sold out in the meantime. Please remove it.' : `Only ${line.stock} left. Please lower the quantity.`}</p>`}
<form method="post" action="/cart/items/${line.productId}" class="amount">${csrfField(view)}<label class="hidden" for="q${line.productId}">Quantity of ${line.name}</label>
<input id="q${line.productId}" name="quantity" type="number" inputmode="numeric" min="0" max="20" value="${line.quantity}" data-submit><noscript><button class="link">Update</button></noscript>
<button class="link" name="remove" value="1">Remove</button></form></div>
<p class="price">${money(line.unitPriceCents * line.quantity)}</p></li>`)}</ul>
<aside class="panel"><h2>Summary</h2>${totalsList(cart.totals, { coupon: cart.coupon?.code })}
<p class="quiet small">Delivery and sales tax are added in the next step.</p>
<form method="post" action="/cart/coupon" class="coupon">${csrfField(view)}${cart.coupon
    ? html`<p>${icon('check')} Code <strong>${cart.coupon.code}</strong></p><button class="link" name="remove" value="1">Remove</button>`
    : html`<label class="hidden" for="code">Code</label><input id="code" name="code" placeholder="Discount code" maxlength="40" autocomplete="off" required><button class="button light">Apply</button>`}</form>
${cart.couponProblem && html`<p class="problem">${cart.couponProblem}</p>`}
${blocked ? html`<button class="button wide" disabled>Check out</button>` : html`<a class="button wide" href="/checkout">Check out</a>`}</aside></div>`);
}

export function addressPage(view, { cart, values, problems = {} }) {
  return layout(view, { title: 'Address' }, html`${steps(1)}<div class="columns"><form method="post" action="/checkout" class="panel form" novalidate>${csrfField(view)}
<h1>Where shall we send it?</h1>${!view.user && html`<p class="quiet">Have an account? <a href="/login?next=/checkout">Log in</a> to fill this in.</p>`}
<div class="fields">${field('email', 'Mail address', { type: 'email', value: values.email, problem: problems.email, autocomplete: 'email', required: true, maxlength: 254, wide: true })}${addressFields(values, problems)}</div>
<button class="button wide">Continue to delivery</button></form>
<aside class="panel"><h2>Your order</h2>${miniLines(cart.lines)}${totalsList(cart.totals, { coupon: cart.coupon?.code })}</aside></div>`);
}

export function reviewPage(view, offer) {
  const a = offer.address;
  return layout(view, { title: 'Delivery and payment' }, html`${steps(2)}<div class="columns"><div class="stack">
<section class="panel"><div class="split"><h2>Address</h2><a class="plainlink" href="/checkout">Change</a></div><p class="address">${a.name}<br>${a.street}<br>${a.city}, ${a.state} ${a.zip}<br>${a.country === 'CA' ? 'Canada' : 'United States'}</p><p class="quiet">${offer.email}</p></section>
<form class="panel" method="get" action="/checkout/review"><h2>Delivery</h2><div class="options">${offer.rates.map((rate) => html`<label class="option"><input type="radio" name="method" value="${rate.method}" data-submit${rate.method === offer.chosen ? raw(' checked') : ''}><span><b>${rate.label}</b><small>about ${rate.days} ${rate.days === 1 ? 'day' : 'days'}</small></span><b>${rate.cents === 0 ? 'Free' : money(rate.cents)}</b></label>`)}</div><noscript><button class="button light">Update</button></noscript></form></div>
<aside class="panel"><h2>Your order</h2>${miniLines(offer.lines)}${totalsList(offer.totals, { coupon: offer.coupon?.code, shipping: true, tax: offer.estimated.tax })}
<form method="post" action="/checkout/review" data-once>${csrfField(view)}<input type="hidden" name="method" value="${offer.chosen}"><input type="hidden" name="total" value="${offer.totals.totalCents}">
<button class="button wide">Order and pay ${money(offer.totals.totalCents)}</button></form><p class="quiet small">You pay on the secure page of our payment provider, Stripe.</p></aside></div>`);
}

function orderHead(order, payment, view, action) {
  const pay = (label) => html`<form method="post" action="${action}" data-once>${csrfField(view)}<button class="button">${label}</button></form>`;
  if (order.status === 'payment_pending' && payment === 'done') {
    return html`<div class="orderhead" data-poll="payment_pending"><h1>Confirming your payment</h1><p>This takes a moment. The page changes by itself.</p></div>`;
  }
  if (order.status === 'payment_pending') {
    return html`<div class="orderhead"><h1>Your order is waiting for payment</h1>
<p class="notice ${order.paymentError ? 'error' : 'ok'}">${order.paymentError ? html`${order.paymentError} Nothing was charged. We keep your order for 24 hours.` : payment === 'cancelled' ? 'You left the payment page. Nothing was charged, and we keep your order for 24 hours.' : 'Nothing was charged yet. We keep your order for 24 hours.'}</p>${pay(order.paymentError ? 'Try the payment again' : 'Pay now')}</div>`;
  }
  const text = {
    paid: ['Thank you for your order', 'We have received your payment and are packing your things. A receipt is on its way to you.'],
    shipped: ['Your order is on its way', 'It should be with you in a few days.'],
    refunded: ['Your order was refunded', 'The money is on its way back to you.'],
    cancelled: ['This order was cancelled', 'Nothing was charged.'],
  }[order.status];
  return html`<div class="orderhead"><h1>${text[0]}</h1><p>${text[1]}</p></div>`;
}

export function orderPage(view, { order, payment }) {
  const key = `?key=${encodeURIComponent(order.accessKey)}`;
  const a = order.address;
  return layout(view, { title: `Order ${order.number}` }, html`${orderHead(order, payment, view, `/orders/${order.number}/pay${key}`)}
<div class="columns" data-order="${order.number}" data-key="${order.accessKey}"><section class="panel"><div class="split"><h2>Order ${order.number}</h2><span class="status ${order.status}">${STATUS[order.status]}</span></div>
<p class="quiet">Placed on ${date(order.placedAt)}</p>${miniLines(order.items)}${totalsList(order, { coupon: order.couponCode, shipping: true, tax: false })}</section>
<div class="stack"><section class="panel"><h2>Delivery</h2><p class="address">${a.name}<br>${a.street}<br>${a.city}, ${a.state} ${a.zip}</p><p class="quiet">${order.shippingMethod}</p>
${order.trackingNumber && html`<p>Tracking: ${order.trackingUrl ? html`<a href="${safeUrl(order.trackingUrl)}">${order.trackingNumber}</a>` : order.trackingNumber}</p>`}</section>
<section class="panel"><h2>Receipt</h2><p>We write to <strong>${order.email}</strong>.</p>${order.hasInvoice ? html`<p><a class="button light" href="/orders/${order.number}/invoice${key}">Download the invoice</a></p>` : html`<p class="quiet">The invoice appears here shortly after the payment.</p>`}</section></div></div>`);
}
