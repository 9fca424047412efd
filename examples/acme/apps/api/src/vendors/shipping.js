import { fetchJson } from '@acme/shared/integrations/fetch-json';
import { VendorError } from '@acme/shared/errors';

export const WAREHOUSE = { name: 'Acme Goods', street1: '1820 NW Thurman St', city: 'Portland', state: 'OR', zip: '97209', country: 'US' };

/** Used when the carrier service does not answer: what the last price list says. */
export function fallbackRates({ weightGrams, country }) {
  const kilos = Math.max(1, Math.ceil(weightGrams / 1000));
  const abroad = country === 'US' ? 0 : 900;
  return [
    { method: 'standard', label: 'Standard', cents: 590 + 100 * (kilos - 1) + abroad, days: 5, rateId: null, source: 'fallback' },
    { method: 'express', label: 'Express', cents: 1490 + 250 * (kilos - 1) + abroad * 2, days: 2, rateId: null, source: 'fallback' },
  ];
}

/** The cheapest rate becomes standard, the fastest one that is faster becomes express. */
export function chooseRates(rates) {
  const usable = rates
    .map((rate) => ({
      cents: Math.round(Number(rate.amount) * 100),
      days: rate.estimated_days ?? 5,
      rateId: rate.object_id,
      carrier: rate.provider,
      currency: rate.currency,
    }))
    .filter((rate) => Number.isFinite(rate.cents) && rate.cents >= 0 && rate.currency === 'USD')
    .sort((a, b) => a.cents - b.cents);
  if (!usable.length) return null;
  const chosen = (method, label, rate) => ({
    method, label: rate.carrier ? `${label} (${rate.carrier})` : label, cents: rate.cents, days: rate.days, rateId: rate.rateId, source: 'shippo',
  });
  const [cheapest] = usable;
  const fastest = usable.filter((rate) => rate.days < cheapest.days).sort((a, b) => a.days - b.days || a.cents - b.cents)[0];
  return [chosen('standard', 'Standard', cheapest), ...(fastest ? [chosen('express', 'Express', fastest)] : [])];
}

export function createShipping({ config, onError, fetch }) {
  const call = (path, body, timeoutMs) =>
    fetchJson('shippo', `${config.SHIPPO_API_URL}${path}`, {
      method: 'POST', body, timeoutMs, fetch, headers: { authorization: `ShippoToken ${config.SHIPPO_API_TOKEN}` },
    });
  return {
    /** Never fails: a shop without rates could not sell. */
    async rates({ address, weightGrams }) {
      try {
        const shipment = await call('/shipments/', {
          address_from: WAREHOUSE,
          address_to: { name: address.name, street1: address.street, city: address.city, state: address.state, zip: address.zip, country: address.country },
          parcels: [{ length: '12', width: '10', height: '8', distance_unit: 'in', weight: String(weightGrams), mass_unit: 'g' }],
          async: false,
        }, 2_500);
        const rates = chooseRates(shipment.rates ?? []);
        if (!rates) throw new VendorError('shippo', 'no usable rate in the answer');
        return rates;
      } catch (error) {
        onError(error);
        return fallbackRates({ weightGrams, country: address.country });
      }
    },
    /** Buys a label for a rate that was quoted. */
    async buyLabel(order) {
      if (!order.shipping_rate_id) throw new VendorError('shippo', `order ${order.number} was priced without a carrier rate`);
      const label = await call('/transactions/', { rate: order.shipping_rate_id, label_file_type: 'PDF', async: false, metadata: order.number }, 10_000);
      if (label.status !== 'SUCCESS') throw new VendorError('shippo', label.messages?.[0]?.text ?? `label is ${label.status}`);
      return { trackingNumber: label.tracking_number, trackingUrl: label.tracking_url_provider, labelUrl: label.label_url };
    },
  };
}
