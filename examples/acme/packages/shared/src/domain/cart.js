import { badRequest } from '../errors.js';

export const MAX_QUANTITY = 20;
export const MAX_LINES = 30;

/** A whole number from 0 to MAX_QUANTITY, or an error. Text from forms is accepted. */
export function parseQuantity(value) {
  const number = typeof value === 'string' && /^-?\d{1,6}$/.test(value.trim()) ? Number(value) : value;
  if (!Number.isInteger(number) || number < 0) throw badRequest('quantity_invalid', 'Please give a quantity of zero or more.');
  if (number > MAX_QUANTITY) throw badRequest('quantity_too_large', `You can order at most ${MAX_QUANTITY} of one product.`);
  return number;
}

/** @param {Record<string, number>} cart @returns {Record<string, number>} */
export function setQuantity(cart, productId, quantity) {
  const next = { ...cart };
  if (quantity === 0) delete next[productId];
  else next[productId] = quantity;
  if (Object.keys(next).length > MAX_LINES) throw badRequest('cart_full', `A cart holds at most ${MAX_LINES} products.`);
  return next;
}

/** Adds to what is there, and never goes over the limit. */
export function addQuantity(cart, productId, quantity) {
  if (quantity < 1) throw badRequest('quantity_invalid', 'Please give a quantity of at least one.');
  return setQuantity(cart, productId, parseQuantity((cart[productId] ?? 0) + quantity));
}

export const countItems = (cart) => Object.values(cart).reduce((sum, n) => sum + n, 0);

/**
 * Puts a cart and the products of the database together. Prices come from
 * the products; products that are gone or inactive are dropped and named.
 */
export function joinCart(cart, products) {
  const byId = new Map(products.map((product) => [product.id, product]));
  const lines = [];
  const gone = [];
  for (const [id, quantity] of Object.entries(cart)) {
    const product = byId.get(Number(id));
    if (!product?.active) {
      gone.push(Number(id));
      continue;
    }
    lines.push({
      productId: product.id,
      slug: product.slug,
      name: product.name,
      image: product.thumbnail ?? product.image,
      unitPriceCents: product.price_cents,
      weightGrams: product.weight_grams,
      quantity,
      stock: product.stock,
      available: product.stock >= quantity,
    });
  }
  return { lines, gone };
}
