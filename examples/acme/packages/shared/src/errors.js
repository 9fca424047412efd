/** An error that is meant for the caller: it has a status, a code and a plain message. */
export class AppError extends Error {
  /**
   * @param {number} status HTTP status
   * @param {string} code stable identifier for clients
   * @param {string} message shown to people
   * @param {Record<string, unknown>} [details]
   */
  constructor(status, code, message, details) {
    super(message);
    this.name = 'AppError';
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

export const badRequest = (code, message, details) => new AppError(400, code, message, details);
export const notFound = (what) => new AppError(404, 'not_found', `We could not find that ${what}.`);
export const conflict = (code, message, details) => new AppError(409, code, message, details);
export const forbidden = (message = 'You are not allowed to do that.') => new AppError(403, 'forbidden', message);
export const unauthorised = () => new AppError(401, 'login_required', 'Please log in first.');

/** A vendor did not answer, answered late, or answered with an error. */
export class VendorError extends Error {
  constructor(vendor, message, options) {
    super(`${vendor}: ${message}`, options);
    this.name = 'VendorError';
    this.vendor = vendor;
  }
}
