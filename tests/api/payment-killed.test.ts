import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startApiProcess } from '../support/api-process.ts'
import { until } from '../support/processes.ts'
import { openShop } from './payment-support.ts'

for (const point of ['payment.P1', 'payment.P2'] as const) {
  test(`kill -9 of the api at ${point}, between an event and its end: the next process gives it its effect, once`, async () => {
    await using shop = await openShop()
    await shop.buy()
    const event = shop.double.pay(shop.page())
    {
      await using killed = await startApiProcess(shop.w, { stripe: shop.double.config, killed_at: point })
      assert.equal((await shop.tell(event, {}, killed.base)).status, 200)
      assert.equal(await killed.ended, 'SIGKILL')
    }
    const was_bought = (await shop.subscription()).plan.slug === 'team'
    assert.equal(was_bought, point === 'payment.P2')
    // The dead process's claim expires. The event comes again, and must change nothing more.
    await shop.w.database.superuser
      .updateTable('payment_events')
      .set({ next_try_at: new Date(0) })
      .execute()
    await using next = await startApiProcess(shop.w, { stripe: shop.double.config })
    assert.equal((await shop.tell(event, {}, next.base)).status, 200)
    await until('the event has had its effect', 60_000, async () => {
      const rows = await shop.w.database.superuser.selectFrom('payment_events').select('applied_at').execute()
      return rows.every(({ applied_at }) => applied_at !== null)
    })
    const records = await shop.w.database.superuser.selectFrom('audit_events').select('id').where('action', '=', 'billing.buy').execute()
    assert.deepEqual([(await shop.subscription()).plan.slug, records.length], ['team', 1])
  })
}
