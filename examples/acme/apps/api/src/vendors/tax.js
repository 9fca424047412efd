import { fetchJson } from '@acme/shared/integrations/fetch-json';
import { VendorError } from '@acme/shared/errors';
import { WAREHOUSE } from './shipping.js';

// Rates by state for when the tax service does not answer, in percent.
const RATES = { CA: 7.25, CO: 2.9, FL: 6, IL: 6.25, MA: 6.25, NY: 4, TX: 6.25, WA: 6.5 };

export const fallbackTax = ({ address, goodsCents }) => ({
  cents: address.country === 'US' ? Math.round((goodsCents * (RATES[address.state] ?? 0)) / 100) : 0,
  source: 'fallback',
});

export function createTax({ config, onError, fetch }) {
  return {
    /** Sales tax on goods (after discount) and delivery. Never fails. */
    async forOrder({ address, goodsCents, shippingCents, lines, discountCents }) {
      try {
        const answer = await fetchJson('taxjar', `${config.TAXJAR_API_URL}/v2/taxes`, {
          method: 'POST',
          timeoutMs: 2_500,
          fetch,
          headers: { authorization: `Bearer ${config.TAXJAR_API_KEY}` },
          body: {
            from_country: WAREHOUSE.country, from_zip: WAREHOUSE.zip, from_state: WAREHOUSE.state, from_city: WAREHOUSE.city,
            to_country: address.country, to_zip: address.zip, to_state: address.state, to_city: address.city, to_street: address.street,
            amount: goodsCents / 100,
            shipping: shippingCents / 100,
            line_items: lines.map((line, i) => ({
              id: String(line.productId), quantity: line.quantity, unit_price: line.unitPriceCents / 100, discount: i === 0 ? discountCents / 100 : 0,
            })),
          },
        });
        const amount = answer?.tax?.amount_to_collect;
        if (typeof amount !== 'number' || !(amount >= 0) || amount * 100 > goodsCents + shippingCents) {
          throw new VendorError('taxjar', 'the answer has no usable amount');
        }
        return { cents: Math.round(amount * 100), source: 'taxjar' };
      } catch (error) {
        onError(error);
        return fallbackTax({ address, goodsCents });
      }
    },
  };
}
