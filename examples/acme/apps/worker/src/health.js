import { createServer } from 'node:http';
import { health } from '@acme/shared/http/health';

/** The worker has no pages, only this: GET /health. */
export function createHealthServer(config, checks) {
  const server = createServer(async (request, response) => {
    const found = request.method === 'GET' && request.url === '/health';
    const { ok, report } = found ? await health(config, checks) : { ok: false, report: { error: { code: 'not_found' } } };
    response.writeHead(found ? (ok ? 200 : 503) : 404, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    response.end(JSON.stringify(report));
  });
  return {
    listen: (address) =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(address, resolve);
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}
