import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

const options = (root, production) => ({
  entryPoints: [`${root}/browser/main.js`],
  bundle: true,
  format: 'esm',
  target: 'es2022',
  minify: production,
  legalComments: 'none',
  logLevel: 'silent',
});

/** Writes the minified script to `dist`, for production. */
export async function buildBundle(root) {
  const { build } = await import('esbuild');
  await build({ ...options(root, true), outfile: `${root}/dist/app.js`, sourcemap: 'linked' });
}

/** The browser script: the built one in production, otherwise bundled in memory at start. */
export async function browserBundle({ root, production }) {
  let code;
  if (production) {
    code = await readFile(`${root}/dist/app.js`).catch((error) => {
      throw new Error('the browser script is not built; run `npm run build` first', { cause: error });
    });
  } else {
    const { build } = await import('esbuild');
    const result = await build({ ...options(root, false), write: false });
    code = Buffer.from(result.outputFiles[0].contents);
  }
  return { code, etag: `"${createHash('sha256').update(code).digest('base64url').slice(0, 27)}"` };
}
