import { previousDay, settle } from '@acme/shared/domain/settlement';
import { forgottenOrders, queuePaidOrder } from '@acme/shared/domain/orders';

/** True when the day before `now` is due for settlement. */
export const settlementDue = (now, hourUtc, lastDay) => now.getUTCHours() >= hourUtc && (lastDay ?? '') < previousDay(now);

/** Looks every minute at what the clock says should be done. */
export function startSchedule({ db, queue, log, errors, hourUtc, everyMs = 60_000 }) {
  async function tick() {
    try {
      const last = await db.one('SELECT max(day)::text AS day FROM settlements');
      const now = new Date();
      if (settlementDue(now, hourUtc, last?.day)) {
        const row = await settle(db, previousDay(now));
        log.info({ day: row.day, payments: row.payments, netCents: row.net_cents, released: row.released }, 'day settled');
      }
      for (const order of await forgottenOrders(db)) await queuePaidOrder(db, queue, order);
    } catch (error) {
      if (error.code) log.warn({ err: error }, 'schedule could not run');
      else errors.report(error, { tags: { job: 'schedule' } });
    }
  }
  const timer = setInterval(tick, everyMs);
  const first = tick();
  return {
    async stop() {
      clearInterval(timer);
      await first;
    },
  };
}
