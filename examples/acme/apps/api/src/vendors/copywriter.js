import { VendorError } from '@acme/shared/errors';

export function createCopywriter(config) {
  // Loaded when it is first needed: it is used rarely, and only by staff.
  let client;
  const connect = async () => {
    const { default: Anthropic } = await import('@anthropic-ai/sdk');
    client ??= new Anthropic({ apiKey: config.ANTHROPIC_API_KEY, baseURL: config.ANTHROPIC_BASE_URL, timeout: 15_000, maxRetries: 1 });
    return client;
  };
  return {
    /** A product text in the voice of the shop. */
    async describe(product, hint = '') {
      const { messages } = await connect();
      const message = await messages
        .create({
          model: config.ANTHROPIC_MODEL,
          max_tokens: 300,
          system: 'You write short, concrete product texts for Acme Goods, a shop for well-made things for the home. Two or three sentences, no exclamation marks, no superlatives. Answer with the text only.',
          messages: [{
            role: 'user',
            content: `Product: ${product.name}\nTagline: ${product.tagline}\nCategory: ${product.category_slug}\nPresent text: ${product.description}${hint ? `\nPlease mention: ${hint}` : ''}`,
          }],
        })
        .catch((error) => {
          throw new VendorError('anthropic', error.message, { cause: error });
        });
      const text = message.content.filter((block) => block.type === 'text').map((block) => block.text).join('').trim();
      if (!text) throw new VendorError('anthropic', 'the answer has no text');
      return text;
    },
  };
}
