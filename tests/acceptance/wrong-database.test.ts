// Needs its own installation: the tests exchange its database.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { openDatabase, type Db } from '../../service/db/database.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { dumpRows } from '../support/put-back.ts'
import { startService, type Service } from '../support/service.ts'

let service: Service
let client: Client
let db: Db
const caps = { memory_mib: 512 }

before(async () => {
  service = await startService({ settings: { slot_memory_mib: 512 } })
  client = createClient(service.base_url, service.api_key)
  db = openDatabase({ url: service.database_url(), role: null, connections_max: 2, application_name: 'berth-test' })
})
after(async () => {
  await db.destroy()
  await service.stop()
})

async function operate(workspace: OpenedWorkspace, kind: 'suspend' | 'resume'): Promise<void> {
  const { state, error } = await client.operate(`/v1/workspaces/${workspace.id}/${kind}`)
  assert.equal(state, 'succeeded', JSON.stringify(error))
}

async function write(workspace: OpenedWorkspace, text: string): Promise<void> {
  const { body } = await client.tool(workspace, '/files?path=/home/user/written', { method: 'PUT', bytes: Buffer.from(text) })
  assert.equal(body['durable'], true, JSON.stringify(body))
}

async function read(key: string): Promise<string> {
  const { bytes } = await client.tool(await client.open(key), '/files?path=/home/user/written')
  return bytes.toString()
}

const filesOf = async (id: string) => (await service.inventory()).files.find(({ subject }) => subject.id === id)

/** The killed cell cannot act on its old rows before its next start reads the new ones. */
async function behindTheCellsBack(change: () => Promise<void>): Promise<void> {
  process.kill(service.pid('cell'), 'SIGSTOP')
  await change()
  await service.kill9('cell')
}

interface Finding {
  check: string
  level: string
  text: string
}

async function finding(check: string): Promise<Finding | undefined> {
  const text = await service.admin('doctor', '--json').catch((error: unknown) => (error as { stdout: string }).stdout)
  return (JSON.parse(text) as { findings: Finding[] }).findings.find((one) => one.check === check)
}

test('with an empty database of another installation nothing is lost, and the doctor names both installations', async () => {
  const [resident, asleep] = [await client.open('resident', { caps }), await client.open('asleep', { caps })]
  for (const one of [resident, asleep]) await write(one, 'before')
  await operate(asleep, 'suspend')
  // The suspend answers first, and deletes the running disk afterwards.
  await until('only the checkpoint is left', 60_000, async () => (await filesOf(asleep.id))?.disks.length === 0)
  const before = await service.inventory()
  const putBack = await dumpRows(db)
  await behindTheCellsBack(async () => {
    await sql`truncate workspaces cascade`.execute(db)
    await sql`update installation set id = gen_random_uuid()`.execute(db)
  })
  await until('the doctor sees it', 120_000, async () => (await finding('ready'))?.level === 'wrong')
  const { level, text } = (await finding('installation')) ?? {}
  assert.equal(level, 'wrong')
  assert.match(text ?? '', new RegExp(`belongs to installation ${before.installation}, the database is of [0-9a-f-]{36}`))
  const now = await service.inventory()
  assert.deepEqual([now.machines, now.files], [before.machines, before.files])
  await behindTheCellsBack(putBack)
  await service.ready()
  assert.deepEqual([await read('resident'), await read('asleep')], ['before', 'before'])
})

test('with an older dump of the database nothing is lost, and a workspace that it lacks is quarantined and listed', async () => {
  const asleep = await client.open('twice', { caps })
  await operate(asleep, 'suspend')
  const putBack = await dumpRows(db)
  await write(await client.open('twice'), 'since the dump')
  await operate(asleep, 'suspend')
  const stranger = await client.open('stranger', { caps })
  await write(stranger, 'since the dump')
  await behindTheCellsBack(putBack)
  await service.ready()
  assert.equal(await read('twice'), 'since the dump')
  assert.equal(await read('resident'), 'before')
  assert.ok(!(await service.inventory()).machines.some(({ subject }) => subject.id === stranger.id))
  const kept = await filesOf(stranger.id)
  assert.deepEqual([kept?.disks.length, kept?.quarantined.map(({ kind }) => kind)], [1, ['subject']])
  const { level, text } = (await finding('quarantine')) ?? {}
  assert.equal(level, 'notice')
  assert.ok(text?.includes(`workspace ${stranger.id} since `), text)
})
