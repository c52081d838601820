import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { startCell } from '../../service/cell/app.ts'
import { createIds } from '../../service/lib/ids.ts'
import { systemClock } from '../../service/lib/clock.ts'
import { freshDatabase } from '../support/postgres.ts'
import { createIntentions, until } from './intentions.ts'
import { openRealHost, whatIsMissing } from './real-host.ts'

const skip = whatIsMissing() ?? false

test('a cell process drives real machines through open, suspend, resume, fork, a death and delete', { skip }, async (t) => {
  const harness = await openRealHost()
  try {
    await using database = await freshDatabase()
    const config = {
      listen: { host: '127.0.0.1', port: 0 },
      ops_listen: { host: '127.0.0.1', port: 0 },
      base_url: 'http://127.0.0.1:1',
      cell_endpoint: 'http://127.0.0.1:2',
      cell_name: 'here',
      hostd_socket: harness.socket,
      database: database.options('berth_cell'),
      log_level: 'error' as const,
      park_after: { freeze_after_seconds: 0, hibernate_after_seconds: 0 },
    }
    const cell = await startCell(config, { log: pino({ level: process.env['BERTH_TEST_LOG'] ?? 'silent' }) })
    try {
      await cell.serving
      assert.equal((await fetch(`${cell.ops_address}/readyz`)).status, 200)
      assert.match(await (await fetch(`${cell.ops_address}/metrics`)).text(), /berth_cell_acts 1/)
      const say = await createIntentions(database.superuser, systemClock, createIds(systemClock), harness.layers)
      const resources = { cpu_millis: 1000, memory_mib: 256, disk_gib: 1 }
      const machineOf = async (workspace_id: string) => {
        const found = (await harness.host.inventory()).machines.find((machine) => machine.workspace_id === workspace_id)
        assert.ok(found)
        return found
      }
      const timed = async (what: string, operation_id: string) => {
        const { state, error, started_at, completed_at } = await say.ended(operation_id)
        assert.deepEqual([state, error], ['succeeded', null])
        t.diagnostic(`${what}: ${(completed_at?.getTime() ?? 0) - (started_at?.getTime() ?? 0)} ms`)
      }
      const { workspace_id, operation_id } = await say.open({ resources })
      await timed('open', operation_id)
      const guest = await harness.guest(await machineOf(workspace_id))
      await guest.writeFile('/home/kept', 'text')
      await guest.writeMemory('canary')
      const count = await guest.count()
      await timed('suspend', await say.operate(workspace_id, 'suspend'))
      assert.deepEqual((await harness.host.inventory()).machines, [])
      await timed('resume', await say.operate(workspace_id, 'resume'))
      const again = await harness.guest(await machineOf(workspace_id))
      assert.deepEqual(
        [await again.readFile('/home/kept'), await again.readMemory(), (await again.count()) >= count],
        ['text', 'canary', true],
      )
      const fork = await say.fork(workspace_id, { resources })
      await timed('fork', fork.operation_id)
      const copy = await harness.guest(await machineOf(fork.workspace_id))
      assert.equal(await copy.readMemory(), 'canary')
      await harness.kill(await machineOf(workspace_id))
      await until(async () => (await say.workspace(workspace_id)).observed_state === 'failed')
      await timed('open after a death', await say.operate(workspace_id, 'open'))
      const third = await harness.guest(await machineOf(workspace_id))
      assert.deepEqual([await third.readFile('/home/kept'), await third.readMemory()], ['text', null])
      for (const id of [workspace_id, fork.workspace_id]) await timed('delete', await say.operate(id, 'delete'))
      const { machines, workspaces } = await harness.host.inventory()
      assert.deepEqual([machines, workspaces.flatMap(({ disks, checkpoints }) => [...disks, ...checkpoints])], [[], []])
    } finally {
      await cell.close()
    }
  } finally {
    await harness.close()
  }
})
