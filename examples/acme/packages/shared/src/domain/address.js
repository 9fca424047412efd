import { badRequest } from '../errors.js';

export const COUNTRIES = { US: 'United States', CA: 'Canada' };

const FIELDS = {
  name: { label: 'name', max: 80 },
  street: { label: 'street', max: 120 },
  city: { label: 'city', max: 80 },
  state: { label: 'state', max: 2, pattern: /^[A-Za-z]{2}$/, hint: 'a two-letter code such as OR' },
  zip: { label: 'postcode', max: 10, pattern: /^[A-Za-z0-9][A-Za-z0-9 -]{2,9}$/, hint: 'a postcode such as 97209' },
};

export const validEmail = (text) => typeof text === 'string' && text.length <= 254 && /^[^\s@<>]+@[^\s@<>]+\.[^\s@<>.]{2,}$/.test(text);

/** @returns {{name: string, street: string, city: string, state: string, zip: string, country: string}} */
export function parseAddress(input) {
  const address = {};
  const fields = {};
  for (const [name, rule] of Object.entries(FIELDS)) {
    const value = String(input?.[name] ?? '').trim();
    if (!value) fields[name] = `Please fill in your ${rule.label}.`;
    else if (value.length > rule.max) fields[name] = `This ${rule.label} is too long.`;
    else if (rule.pattern && !rule.pattern.test(value)) fields[name] = `Please give ${rule.hint}.`;
    address[name] = value;
  }
  address.state = address.state.toUpperCase();
  address.country = String(input?.country ?? 'US').toUpperCase();
  if (!(address.country in COUNTRIES)) fields.country = 'We deliver to the United States and Canada.';
  if (Object.keys(fields).length) throw badRequest('address_invalid', 'Please check the address.', { fields });
  return address;
}
