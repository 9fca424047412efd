/** `npm run seed`: development data. Running it again puts the catalogue back and adds nothing twice. */
import '@acme/shared/load-env';
import { loadConfigOrExit } from '@acme/shared/config';
import { createDatabase } from '@acme/shared/db';
import { categories, coupons, customers, products, staff } from '../seed/data.mjs';
import { seedCatalogue, seedCoupons, seedHistory, seedUsers } from '../seed/load.mjs';

const config = loadConfigOrExit('seed');
const db = createDatabase(config.DATABASE_URL);
try {
  const counts = await db.transaction(async (tx) => {
    const catalogue = await seedCatalogue(tx, { categories, products });
    const users = await seedUsers(tx, [...customers, ...staff]);
    await seedCoupons(tx, coupons);
    const orders = await seedHistory(tx);
    return { catalogue, users, orders };
  });
  await db.query('ANALYZE');
  process.stdout.write(
    `${counts.catalogue} products, ${counts.users} users, ${coupons.length} coupons, ${counts.orders} past orders\n` +
      [...customers.slice(0, 1), ...staff].map((u) => `  ${u.role.padEnd(9)} ${u.email}  ${u.password}`).join('\n') + '\n',
  );
} catch (error) {
  process.stderr.write(`seed: ${error.message || error.errors?.[0]?.message || error.code}${error.code === '42P01' ? ' (run `npm run migrate` first)' : ''}\n`);
  process.exitCode = 1;
} finally {
  await db.close();
}
