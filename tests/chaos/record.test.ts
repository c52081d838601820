import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'
import { openHistory } from './history.ts'
import { judgeChanges, type Recorded } from './record.ts'

const folder = mkdtempSync('/tmp/berth-record-')
after(() => rmSync(folder, { recursive: true }))

type Workspace = Recorded['workspaces'][number]['is']
type Operation = Recorded['operations'][number]['is']
let seq = 0
const change = <T>(was: T | null, is: T) => ({ seq: (seq += 1), xid: String(seq), workspace_id: 'w', was, is })
const row = (state: Workspace['state'], epoch: number, more: Partial<Workspace> = {}): Workspace => ({
  state,
  epoch,
  residency: 'resident',
  deleted: false,
  ...more,
})
const life = (...rows: Workspace[]) => rows.map((is, index) => change(rows[index - 1] ?? null, is))
const operation = (kind: string, state: Operation['state']): Operation => ({ id: kind, kind, state, source: null, reason: null })
const NOTHING: Recorded = { workspaces: [], operations: [], checkpoints: [], meters: [] }

function found(recorded: Partial<Recorded>, asked: Record<string, number> = {}): string[] {
  const history = openHistory(path.join(folder, `${seq}.jsonl`), () => undefined)
  for (const [what, count] of Object.entries(asked)) history.count(what, count)
  judgeChanges({ ...NOTHING, ...recorded }, 10_000, history)
  return history.violations.map((text) => text.slice(0, text.indexOf(' {')))
}

const OPENED = [row('creating', 0), row('starting', 0), row('running', 1)]
const asleep = { residency: 'hibernated' } as const

test('a valid history passes: opened, parked, woken, suspended, resumed, dead, opened again, deleted', () => {
  const rows = [
    ...OPENED,
    row('running', 1, asleep),
    row('running', 1, { residency: 'restoring' }),
    row('running', 1),
    row('suspending', 1),
    row('suspended', 2),
    row('resuming', 2),
    row('running', 3),
    row('failed', 3),
    row('starting', 3),
    row('running', 4, {}),
    row('deleting', 4, { deleted: true }),
    row('deleted', 4, { deleted: true }),
  ]
  assert.deepEqual(found({ workspaces: life(...rows) }), [])
})

for (const [what, rows] of [
  ['I4: no event of the table leads there', [...OPENED, row('suspended', 2)]],
  ['I4: a workspace began in the middle of its life', [row('running', 1)]],
  ['I3: an epoch went back', [...OPENED, row('running', 0)]],
  ['I3: a suspend is not its own epoch', [...OPENED, row('suspending', 1), row('suspended', 1)]],
  ['I3: it runs again in an epoch of before', [...OPENED, row('failed', 1), row('starting', 1), row('running', 1)]],
  ['I4: no move leads there', [...OPENED, row('running', 1, { residency: 'restoring' })]],
  ['I4: parking changed a state or an epoch', [...OPENED, row('running', 2, asleep)]],
] as const)
  test(`it is found that ${what}`, () => assert.deepEqual(found({ workspaces: life(...rows) }), [what]))

test('a deleted workspace that comes back is found', () => {
  const rows = [...OPENED, row('deleting', 1, { deleted: true }), row('deleted', 1, { deleted: true }), row('deleted', 1)]
  assert.deepEqual(found({ workspaces: life(...rows) }), ['N7: a deleted workspace came back'])
})

test('an operation that succeeded without its effect, failed with it, or changed after its end is found', () => {
  const claimed = () => change(null, operation('suspend', 'running'))
  const ended = (state: Operation['state']) => change(operation('suspend', 'running'), operation('suspend', state))
  const suspended = () => life(row('suspending', 1), row('suspended', 2)).slice(1)
  const asked = { asked_suspend: 1 }
  const right: Recorded = { ...NOTHING, operations: [claimed()], workspaces: suspended() }
  right.operations.push(ended('succeeded'))
  assert.deepEqual(found(right, asked), [])
  assert.deepEqual(found({ operations: [claimed(), ended('succeeded')] }, asked), ['I15: it succeeded without its effect'])
  const wrong: Recorded = { ...NOTHING, operations: [claimed()], workspaces: suspended() }
  wrong.operations.push(ended('failed'))
  assert.deepEqual(found(wrong, asked), ['I15: it failed with its effect'])
  const again = [change(operation('suspend', 'failed'), operation('suspend', 'running'))]
  assert.deepEqual(found({ operations: again }, asked), ['N1: an operation that was over has changed'])
})

test('more operations than requested are found', () => {
  const made = () => change(null, operation('suspend', 'queued'))
  assert.deepEqual(found({ operations: [made()] }, { asked_suspend: 1 }), [])
  assert.deepEqual(found({ operations: [made(), made()] }, { asked_suspend: 1 }), ['I8: there are more operations than were asked for'])
})

test('a meter that went back or exceeds the elapsed time is found', () => {
  const meter = (cpu_usec: number, sampled_ms: number) => ({ workspace_id: 'w', hour: 'h', cpu_usec, sampled_ms })
  assert.deepEqual(found({ meters: [change(meter(1, 1), meter(2, 10_000))] }), [])
  assert.deepEqual(found({ meters: [change(meter(2, 1), meter(1, 1))] }), ['I11: a meter went back'])
  assert.deepEqual(found({ meters: [change(meter(1, 1), meter(1, 10_001))] }), ['I11: more time was counted than has passed'])
})
