/**
 * What an uploaded file really is, judged by its first bytes. The name and
 * the declared type of an upload are not trusted.
 */
const SIGNATURES = [
  { type: 'image/png', extension: 'png', test: (b) => b.subarray(0, 8).equals(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])) },
  { type: 'image/jpeg', extension: 'jpg', test: (b) => b[0] === 0xff && b[1] === 0xd8 && b[2] === 0xff },
  { type: 'image/webp', extension: 'webp', test: (b) => b.toString('latin1', 0, 4) === 'RIFF' && b.toString('latin1', 8, 12) === 'WEBP' },
];

/** @param {Buffer} bytes @returns {{type: string, extension: string} | null} */
export function sniffImage(bytes) {
  if (!Buffer.isBuffer(bytes) || bytes.length < 12) return null;
  const found = SIGNATURES.find((signature) => signature.test(bytes));
  return found ? { type: found.type, extension: found.extension } : null;
}
