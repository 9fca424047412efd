// Runs by `node -e`: its arguments begin at 1. Prints what Node.js wrote of the project's own files, one report a line. Packages are left out: they are not the change.
'use strict';
const fs = require('node:fs');
const folder = `${process.argv[1]}/node`;
const roots = process.argv.slice(2).map((root) => new URL(`file://${root}/`).href);
const own = (url) => roots.some((root) => url.startsWith(root)) && !url.includes('/node_modules/');
let names = [];
try { names = fs.readdirSync(folder).filter((name) => name.startsWith('coverage-')).slice(0, 500); } catch { /* no service of Node.js */ }
for (const name of names) {
  try {
    const report = JSON.parse(fs.readFileSync(`${folder}/${name}`, 'utf8'));
    const result = report.result.filter((script) => own(script.url));
    const all = report['source-map-cache'] || {};
    const maps = Object.fromEntries(Object.entries(all).filter(([url]) => own(url)));
    if (result.length) console.log(JSON.stringify({ result, 'source-map-cache': maps }));
  } catch { /* one that was cut short */ }
}
