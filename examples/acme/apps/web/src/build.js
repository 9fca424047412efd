import { fileURLToPath } from 'node:url';
import { buildBundle } from '@acme/shared/http/bundle';

await buildBundle(fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, ''));
