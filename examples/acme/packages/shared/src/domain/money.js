const formats = new Map();

/** @param {number} cents */
export function formatMoney(cents, currency = 'usd') {
  if (!formats.has(currency)) formats.set(currency, new Intl.NumberFormat('en-US', { style: 'currency', currency }));
  return formats.get(currency).format(cents / 100);
}

/** Reads "12.50" as cents. Returns null for anything that is not a plain amount. */
export function parseMoney(text) {
  const match = /^\s*\$?(\d{1,7})(?:\.(\d{1,2}))?\s*$/.exec(String(text));
  return match ? Number(match[1]) * 100 + Number((match[2] ?? '').padEnd(2, '0')) : null;
}

/** Share of an amount, rounded half up to whole cents. */
export const percentOf = (cents, percent) => Math.round((cents * percent) / 100);
