// Has a service of Node.js write down which of its code ran, when it is told to (SIGPWR) and when it ends.
'use strict';
const folder = process.env.HOTHOUSE_COVERAGE;
if (folder && process.env.NODE_V8_COVERAGE && require('node:worker_threads').isMainThread) {
  const fs = require('node:fs');
  const v8 = require('node:v8');
  try {
    for (const name of ['pids', 'done', 'node']) fs.mkdirSync(`${folder}/${name}`, { recursive: true });
    process.on('SIGPWR', () => {
      try { v8.takeCoverage(); } catch { /* nothing can be said then */ }
      try { fs.writeFileSync(`${folder}/done/${process.pid}`, ''); } catch { /* the folder is gone */ }
    });
    fs.writeFileSync(`${folder}/pids/${process.pid}`, 'node');
  } catch { /* a service must run all the same */ }
}
