import { makeWorkerUtils, run } from 'graphile-worker';
const [what, connectionString] = process.argv.slice(2);
if (what === 'add') {
  const utils = await makeWorkerUtils({ connectionString });
  await utils.migrate();
  await utils.addJob('receipt', { kind: 'fine' }); await utils.addJob('receipt', { kind: 'later' }, { runAt: new Date(Date.now() + 3600000) });
  await utils.addJob('receipt', { kind: 'boom' }, { maxAttempts: 1 });
  await utils.release(); process.exit(0);
}
await run({ connectionString, pollInterval: 300, taskList: { receipt: async ({ kind }) => { if (kind === 'boom') throw new Error('planted-graphile'); } } });
