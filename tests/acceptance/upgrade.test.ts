// Needs its own installation: the tests replace its engine and its agent.
import assert from 'node:assert/strict'
import { renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { assertCounts, startCounter } from '../support/counter.ts'
import { otherPrograms, otherVersion } from '../support/other-programs.ts'
import { startService, type Service } from '../support/service.ts'

// Only the engine that wrote a checkpoint can restore it, and its memory contains the agent of that time. The tests replace both twice, and
// remove the originals.
const programs = otherPrograms()
const small = { caps: { memory_mib: 512 } }

let service: Service
let client: Client
let first: string
const opened: Record<string, OpenedWorkspace> = {}

before(async () => {
  service = await startService({ settings: { slot_memory_mib: 512, runsc: programs.engine() } })
  client = createClient(service.base_url, service.api_key)
  first = (await service.inventory()).engine
})
after(async () => {
  await service.stop()
  programs[Symbol.dispose]()
})

const second = () => otherVersion(first, 'y', 'x')
const third = () => otherVersion(first, 'z', 'x')

async function counting(key: string): Promise<void> {
  const workspace = (opened[key] = await client.open(key, small))
  await startCounter(client, workspace)
}

async function goesOn(key: string, from: number): Promise<number> {
  const workspace = (opened[key] = await client.open(key, small))
  const reached = await assertCounts(client, workspace)
  assert.ok(reached > from, `${key} counts from ${reached} after ${from}`)
  const { body } = await client.tool<{ state: string }>(workspace, '/exec/count')
  assert.equal(body.state, 'running')
  return reached
}

const idOf = (key: string) => opened[key]?.id ?? ''
const operate = async (key: string, verb: string, json?: unknown) =>
  client.operate(`/v1/workspaces/${idOf(key)}/${verb}`, json === undefined ? {} : { json })
const suspend = async (key: string) => assert.equal((await operate(key, 'suspend')).state, 'succeeded')
const remove = async (key: string) =>
  assert.equal((await client.operate(`/v1/workspaces/${idOf(key)}`, { method: 'DELETE' })).state, 'succeeded')
const stateOf = async (key: string) => (await client.api(`/v1/workspaces/${idOf(key)}`)).body['observed_state']
const machineOf = async (key: string) => (await service.inventory()).machines.find(({ subject }) => subject.id === idOf(key))
const doctor = async () => {
  const text = await service.admin('doctor', '--json').catch((error: unknown) => (error as { stdout: string }).stdout)
  return (JSON.parse(text) as { findings: { check: string; level: string; text: string }[] }).findings
}
let counted = 0

test('after an upgrade of engine and agent, running machines run on and suspended ones resume their memory under the old engine', async () => {
  for (const key of ['asleep', 'awake']) await counting(key)
  counted = await goesOn('asleep', 0)
  await suspend('asleep')
  await service.stopProcesses()
  rmSync(path.join(programs.folder, 'runsc'))
  await service.restart({ runsc: programs.engineOf(first, second()), agent: programs.agent() })
  const { engine, engines } = await service.inventory()
  assert.deepEqual([engine, [...engines].sort()], [second(), [first, second()].sort()])
  assert.equal((await machineOf('awake'))?.engine, first)
  await goesOn('awake', 0)
  counted = await goesOn('asleep', counted)
  assert.equal((await machineOf('asleep'))?.engine, first)
})

test('a workspace opened after the upgrade runs under the new engine', async () => {
  await counting('fresh')
  assert.equal((await machineOf('fresh'))?.engine, second())
  await suspend('fresh')
  await goesOn('fresh', 0)
  assert.equal((await machineOf('fresh'))?.engine, second())
})

test('suspends, resumes and forks after the upgrade use the engine that wrote the memory', async () => {
  await suspend('asleep')
  counted = await goesOn('asleep', counted)
  await suspend('awake')
  await goesOn('awake', 0)
  const fork = await client.api<{ operation: { id: string; workspace_id: string } }>(`/v1/workspaces/${idOf('asleep')}/fork`, {
    json: { key: 'fork' },
  })
  opened['fork'] = await client.open('fork', small)
  assert.equal(opened['fork'].id, fork.body.operation.workspace_id)
  await goesOn('fork', counted)
  for (const key of ['asleep', 'awake', 'fork']) assert.equal((await machineOf(key))?.engine, first, key)
  const findings = await doctor()
  assert.deepEqual(
    findings.filter(({ level }) => level === 'wrong').map(({ text }) => text),
    [],
  )
  assert.match(
    findings.find(({ check }) => check === 'hostd')?.text ?? '',
    new RegExp(`^engine ${second()}, 4 machines; kept .*: ${first}$`),
  )
})

test('a reset starts under the new engine, and the old one is removed once no checkpoint needs it', async () => {
  const { state, result } = await operate('asleep', 'reset', { confirm_destructive: true })
  assert.equal(state, 'succeeded')
  assert.equal((await machineOf('asleep'))?.engine, second())
  for (const key of ['awake', 'fork']) await remove(key)
  await lookAgain()
  assert.deepEqual([...(await service.inventory()).engines].sort(), [first, second()].sort())
  assert.equal((await operate('asleep', 'restore', { checkpoint_id: result?.['recovery_checkpoint_id'] })).state, 'succeeded')
  await goesOn('asleep', counted)
  assert.equal((await machineOf('asleep'))?.engine, first)
  await remove('asleep')
  await lookAgain()
  assert.deepEqual((await service.inventory()).engines, [second()])
  await goesOn('fresh', 0)
})

test('without the engine of its checkpoint, a resume fails as checkpoint_incompatible and the doctor names the suspended workspace', async () => {
  await suspend('fresh')
  await service.stopProcesses()
  const [kept, aside] = [path.join(service.data_dir, 'engines', second()), path.join(programs.folder, 'aside')]
  renameSync(kept, aside)
  await service.restart({ runsc: programs.engineOf(first, third()) })
  const { state, error } = await operate('fresh', 'resume')
  assert.deepEqual([state, error?.code, await stateOf('fresh')], ['failed', 'checkpoint_incompatible', 'suspended'])
  assert.equal(error?.details['reason'], 'engine_not_kept')
  const wrong = (await doctor()).filter(({ level }) => level === 'wrong').map(({ text }) => text)
  const named = `Not restorable on this computer: ${idOf('fresh')} (engine_not_kept, checkpoint ${String(error.details['checkpoint_id'])}). `
  assert.deepEqual([wrong.length, wrong[0]?.slice(0, named.length)], [1, named])
  renameSync(aside, kept)
  await goesOn('fresh', 0)
})

test('under a refused engine machines run on, memory is not restored, and the disk starts under the current engine', async () => {
  await service.stopProcesses()
  await service.restart({ engines_refused: 'others' })
  await goesOn('fresh', 0)
  assert.equal((await machineOf('fresh'))?.engine, second())
  assert.match(
    (await doctor()).find(({ check }) => check === 'memory')?.text ?? '',
    new RegExp(`^Running on a refused engine.*: ${idOf('fresh')}$`),
  )
  await suspend('fresh')
  const { state, error } = await operate('fresh', 'resume')
  assert.deepEqual([state, error?.code, error?.details['reason']], ['failed', 'checkpoint_incompatible', 'engine_refused'])
  const asleep = (await doctor()).filter(({ check }) => check === 'memory')
  assert.deepEqual([asleep.length, asleep[0]?.level, asleep[0]?.text.includes(`${idOf('fresh')} (engine_refused`)], [1, 'notice', true])
  const checkpoint_id = error?.details['checkpoint_id']
  assert.equal((await operate('fresh', 'restore', { checkpoint_id, memory: false })).state, 'succeeded')
  const workspace = await client.open('fresh', small)
  assert.equal((await machineOf('fresh'))?.engine, third())
  assert.equal((await client.tool<{ state: string }>(workspace, '/exec/count')).body.state, 'lost')
  assert.deepEqual(
    (await doctor()).filter(({ check }) => check === 'memory'),
    [],
  )
})

/** Restarts hostd, which removes unneeded engines at its start and every five minutes. */
async function lookAgain(): Promise<void> {
  await service.kill9('hostd')
  await service.ready()
}
