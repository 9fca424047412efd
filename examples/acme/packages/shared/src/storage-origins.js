/** Where browsers load stored images from: used for the content security policy. */
export function storageOrigins(config) {
  if (config.S3_ENDPOINT) {
    const { protocol, host } = new URL(config.S3_ENDPOINT);
    return [`${protocol}//${host}`, `${protocol}//${config.S3_BUCKET}.${host}`];
  }
  return [`https://${config.S3_BUCKET}.s3.${config.AWS_REGION}.amazonaws.com`, `https://s3.${config.AWS_REGION}.amazonaws.com`];
}
