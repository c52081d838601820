import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { until } from '../support/processes.ts'
import { openShop, type Shop } from './payment-support.ts'

const MAIN = join(import.meta.dirname, '../../service/main.ts')

/** A whole api process beside the one of the test, on the same database. */
async function startProcess(
  { w, double }: Shop,
  failpoint: string | null,
): Promise<{ child: ChildProcess; base: string } & AsyncDisposable> {
  const here = { host: '127.0.0.1', port: 0 }
  const config = {
    instance: 'beef',
    listen: here,
    ops_listen: here,
    base_url: 'http://api.test',
    cell_endpoint: 'http://cell.test',
    ports_url: 'https://ports.test',
    database_url: w.database.url,
    log_level: 'info',
    signing_keys_dir: w.keys_dir,
    edge_requests_per_minute: 0,
    caller_requests_per_minute: 0,
    wrong_credentials_per_minute: 0,
    layered_opens: true,
    file_first: false,
    uploads_dir: '',
    package_mirror: '',
    registration: 'invitation',
    mail: { smtp_url: '', from: 'berth@localhost', directory: join(w.keys_dir, 'mail') },
    stripe: double.config,
  }
  const path = join(w.keys_dir, 'api.json')
  writeFileSync(path, JSON.stringify(config))
  const flags = failpoint === null ? [] : ['--enable-failpoints']
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, 'api', '--config', path, ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...(failpoint === null ? {} : { BERTH_FAILPOINT: failpoint }) },
  })
  const serving = Promise.withResolvers<string>()
  child.once('exit', (code, signal) => serving.reject(new Error(`the process ended: ${code} ${signal}`)))
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { msg, address } = JSON.parse(line) as { msg: string; address?: string }
    if (msg === 'the application API serves' && address !== undefined) serving.resolve(address)
  })
  const base = await serving.promise
  return {
    child,
    base,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM')
        await once(child, 'exit')
      }
    },
  }
}

for (const point of ['payment.P1', 'payment.P2']) {
  test(`kill -9 of the api at ${point}, between an event and its end: the next process gives it its effect, once`, async () => {
    await using shop = await openShop()
    await shop.buy()
    const event = shop.double.pay(shop.page())
    {
      await using killed = await startProcess(shop, `${point}:kill9`)
      const ended = once(killed.child, 'exit')
      assert.equal((await shop.tell(event, {}, killed.base)).status, 200)
      assert.deepEqual(await ended, [null, 'SIGKILL'])
    }
    const was_bought = (await shop.subscription()).plan.slug === 'team'
    assert.equal(was_bought, point === 'payment.P2')
    // What a dead process has taken is anybody's after a while; the service sends the event again, too, and that changes nothing.
    await shop.w.database.superuser
      .updateTable('payment_events')
      .set({ next_try_at: new Date(0) })
      .execute()
    await using next = await startProcess(shop, null)
    assert.equal((await shop.tell(event, {}, next.base)).status, 200)
    await until('the event has had its effect', 60_000, async () => {
      const rows = await shop.w.database.superuser.selectFrom('payment_events').select('applied_at').execute()
      return rows.every(({ applied_at }) => applied_at !== null)
    })
    const records = await shop.w.database.superuser.selectFrom('audit_events').select('id').where('action', '=', 'billing.buy').execute()
    assert.deepEqual([(await shop.subscription()).plan.slug, records.length], ['team', 1])
  })
}
