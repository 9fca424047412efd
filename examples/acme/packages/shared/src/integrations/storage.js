/** Object storage: uploaded images, thumbnails and invoices. The SDK is loaded when it is first needed. */
export function createStorage(config) {
  const Bucket = config.S3_BUCKET;
  let connection;
  const connect = () =>
    (connection ??= Promise.all([import('@aws-sdk/client-s3'), import('@aws-sdk/s3-request-presigner')]).then(([sdk, { getSignedUrl }]) => ({
      sdk,
      getSignedUrl,
      client: new sdk.S3Client({
        region: config.AWS_REGION,
        endpoint: config.S3_ENDPOINT ?? undefined,
        forcePathStyle: config.S3_FORCE_PATH_STYLE,
        credentials: { accessKeyId: config.AWS_ACCESS_KEY_ID, secretAccessKey: config.AWS_SECRET_ACCESS_KEY },
        maxAttempts: 2,
        requestHandler: { connectionTimeout: 3_000, requestTimeout: 10_000 },
      }),
    })));

  return {
    async put(Key, Body, ContentType, { cache = 'private, max-age=3600' } = {}) {
      const { client, sdk } = await connect();
      await client.send(new sdk.PutObjectCommand({ Bucket, Key, Body, ContentType, CacheControl: cache }));
      return Key;
    },
    async get(Key) {
      const { client, sdk } = await connect();
      const answer = await client.send(new sdk.GetObjectCommand({ Bucket, Key }));
      return Buffer.from(await answer.Body.transformToByteArray());
    },
    /** A link that works for a short time; made locally, without a request. */
    async link(Key, { expiresIn = 300, download } = {}) {
      const { client, sdk, getSignedUrl } = await connect();
      const ResponseContentDisposition = download ? `attachment; filename="${download}"` : undefined;
      return getSignedUrl(client, new sdk.GetObjectCommand({ Bucket, Key, ResponseContentDisposition }), { expiresIn });
    },
    async close() {
      (await connection)?.client.destroy();
    },
  };
}
