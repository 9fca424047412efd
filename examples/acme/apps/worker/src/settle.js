/** `npm run settle [-- --day 2026-01-31]`: closes a day by hand. */
import '@acme/shared/load-env';
import { parseArgs } from 'node:util';
import { loadConfigOrExit } from '@acme/shared/config';
import { createDatabase } from '@acme/shared/db';
import { previousDay, settle, validDay } from '@acme/shared/domain/settlement';
import { formatMoney } from '@acme/shared/domain/money';

const { values } = parseArgs({ options: { day: { type: 'string' } } });
const day = values.day ?? previousDay(new Date());
if (!validDay(day)) {
  process.stderr.write(`settle: "${day}" is not a day; give it as YYYY-MM-DD\n`);
  process.exit(2);
}
const config = loadConfigOrExit('migrate');
const db = createDatabase(config.DATABASE_URL);
try {
  const row = await settle(db, day);
  process.stdout.write(
    `${row.day}: ${row.payments} payments ${formatMoney(row.gross_cents)}, ${row.refunds} refunds ${formatMoney(row.refunded_cents)}, ` +
      `tax ${formatMoney(row.tax_cents)}, net ${formatMoney(row.net_cents)}; ${row.released} abandoned orders released\n`,
  );
} catch (error) {
  process.stderr.write(`settle: ${error.message || error.code}\n`);
  process.exitCode = 1;
} finally {
  await db.close();
}
