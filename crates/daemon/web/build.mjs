// Bundles the dashboard's scripts into the daemon. The terminal's is of its own: only one page needs it.
import { readFileSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const out = '../src/dashboard';
const common = { bundle: true, format: 'iife', target: 'es2022', legalComments: 'none', outdir: out };
await build({ ...common, entryPoints: ['src/app.ts'] });
const banner = '/* xterm.js, MIT licence: see /terminal.license */';
await build({ ...common, entryPoints: ['src/terminal.ts'], minify: true, banner: { js: banner, css: banner } });
const licences = ['xterm', 'addon-fit'].map((name) => readFileSync(`node_modules/@xterm/${name}/LICENSE`, 'utf8'));
writeFileSync(`${out}/terminal.license`, licences.join('\n'));
