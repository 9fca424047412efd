/** What leaves the API: no password hashes, no internal columns. */
export const presentUser = (user) => user && { id: user.id, email: user.email, name: user.name, role: user.role, address: user.address };

export const presentProduct = (p) => ({
  id: p.id, slug: p.slug, name: p.name, tagline: p.tagline, description: p.description, category: p.category_slug, categoryName: p.category_name,
  priceCents: p.price_cents, weightGrams: p.weight_grams, stock: p.stock, image: p.image, thumbnail: p.thumbnail, active: p.active, updatedAt: p.updated_at,
});

export const presentOrder = (o) => ({
  number: o.number, accessKey: o.access_key, email: o.email, status: o.status, currency: o.currency, subtotalCents: o.subtotal_cents,
  discountCents: o.discount_cents, shippingCents: o.shipping_cents, taxCents: o.tax_cents, totalCents: o.total_cents, couponCode: o.coupon_code,
  address: o.address, shippingMethod: o.shipping_method, trackingNumber: o.tracking_number, trackingUrl: o.tracking_url,
  paymentError: o.payment_error, hasInvoice: Boolean(o.invoice_key), placedAt: o.placed_at, paidAt: o.paid_at, shippedAt: o.shipped_at,
  items: o.items?.map((i) => ({ name: i.name, slug: i.slug, image: i.image, unitPriceCents: i.unit_price_cents, quantity: i.quantity })),
});

export const presentOrderForStaff = (o) => ({
  ...presentOrder(o), id: o.id, customerName: o.customer_name ?? o.address?.name, shippingSource: o.shipping_source, taxSource: o.tax_source,
  paymentMethod: o.payment_method, paymentIntent: o.payment_intent, paymentAttempts: o.payment_attempts, hasCarrierRate: Boolean(o.shipping_rate_id),
  receiptSentAt: o.receipt_sent_at, refundedAt: o.refunded_at, itemCount: o.item_count,
});
