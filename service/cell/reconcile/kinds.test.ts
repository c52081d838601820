// Tests every kind of work under way with every fault: the work must end, and release everything that it holds.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import { insertVolume } from '../../../tests/engine/volume-row.ts'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import { refusingWrites } from '../../../tests/support/refused-writes.ts'
import { WORK_KINDS, type WorkKindName } from '../../core/workspaces/under-way/kinds.ts'
import { logOverdue } from '../../core/workspaces/under-way/overdue.ts'
import type { MachineHost } from '../host/hostd.ts'

interface Work {
  over(): Promise<boolean>
  cancel?(): Promise<unknown>
  goOn?(): void
}

interface Kind {
  verb: keyof MachineHost | null
  of: Subject['kind'] | null
  is_forward?: true
  begin(world: World, process: Process): Promise<Work>
}

const SIZE = { cpu_millis: 1000, memory_mib: 512, disk_gib: 4 }
const SETTINGS = { env: {}, inputs: {}, defaults: SIZE, ceiling: SIZE }

const counts = async (world: World, query: string): Promise<number> =>
  (await sql<{ n: number }>`select count(*)::int as n from ${sql.raw(query)}`.execute(world.db)).rows[0]?.n ?? 0
const isOver = (world: World, id: string) => async () => (await world.operation(id)).completed_at !== null

async function ask(world: World, kind: string, subject_kind: string, subject_id: string): Promise<string> {
  const { organization_id, project_id } = await world.db.selectFrom('projects').select(['organization_id', 'id as project_id']).executeTakeFirstOrThrow() // prettier-ignore
  const id = world.ids.next()
  const now = world.clock.now()
  const about = { organization_id, project_id, workspace_id: null, subject_kind, subject_id, kind, state: 'queued' }
  await world.db
    .insertInto('operations')
    .values({ id, ...about, input: '{}', created_at: now, updated_at: now } as never)
    .execute()
  return id
}

const cancel = (world: World, id: string) => () =>
  world.db.updateTable('operations').set({ state: 'canceled', completed_at: world.clock.now() }).where('id', '=', id).execute()

async function build(
  world: World,
  kind: 'recipe' | 'save_as_template',
  spec: object,
  capture_operation_id: string | null,
): Promise<string> {
  const { id: template_id } = await world.db.selectFrom('templates').select('id').executeTakeFirstOrThrow()
  const { organization_id, id: project_id } = await world.db
    .selectFrom('projects')
    .select(['organization_id', 'id'])
    .executeTakeFirstOrThrow()
  const id = world.ids.next()
  const operation_id = world.ids.next()
  const now = world.clock.now()
  const row = { id, organization_id, project_id, template_id, operation_id, kind, spec: JSON.stringify(spec), capture_operation_id }
  await world.db
    .insertInto('template_builds')
    .values({ ...row, version_id: null, created_at: now })
    .execute()
  const about = { organization_id, project_id, workspace_id: null, subject_kind: 'template_build', subject_id: id, kind: 'template_build' }
  await world.db
    .insertInto('operations')
    .values({ id: operation_id, ...about, state: 'queued', input: '{}', created_at: now, updated_at: now } as never)
    .execute()
  return operation_id
}

async function recipeBuild(world: World): Promise<Work> {
  const step = { kind: 'run', title: 'true', argv: ['/bin/true'], cwd: '/', user: 'root', env: {}, timeout_seconds: 10 }
  const plan = {
    layers: ['a'.repeat(64)],
    resources: SIZE,
    egress: { mode: 'deny_all', rules: [], cidrs: [] },
    steps: [step],
    upload: null,
  }
  const id = await build(world, 'recipe', { ...plan, settings: SETTINGS, ceiling: null, description: null, auto_publish: false }, null)
  const machines = () => counts(world, "machines where kind = 'build'")
  return { over: async () => (await isOver(world, id)()) && (await machines()) === 0, cancel: cancel(world, id) }
}

async function saveBuild(world: World): Promise<Work> {
  const opened = await world.open()
  await world.ended(opened.operation_id)
  const capture = await world.operate(opened.workspace_id, 'layer_snapshot')
  const spec = { workspace_id: opened.workspace_id, checkpoint_id: null, layers: ['a'.repeat(64)], settings: SETTINGS, egress: null }
  const id = await build(world, 'save_as_template', { ...spec, description: null, auto_publish: false, acknowledged: [] }, capture)
  const captures = () => counts(world, "checkpoints where kind = 'layer' and expires_at is null and deleted_at is null")
  return { over: async () => (await isOver(world, id)()) && (await captures()) === 0, cancel: cancel(world, id) }
}

async function execution(world: World, { executions }: Process): Promise<Work> {
  const workspace_id = await world.newWorkspace()
  const now = world.clock.now()
  const { id: cell_id } = await world.db.selectFrom('cells').select('id').executeTakeFirstOrThrow()
  const running = { mode: 'file_first', observed_state: 'running', tree_revision: 0, cell_id } as const
  await world.db.updateTable('workspaces').set(running).where('id', '=', workspace_id).execute()
  await world.db.insertInto('trees').values({ workspace_id, root: null, created_at: now, updated_at: now }).execute()
  const exec = { argv: ['true'], cwd: '/home/user', user: 'user', env: {}, timeout_ms: 1000 }
  const shown = { argv: exec.argv, argv_truncated: false, cwd: exec.cwd }
  const asked = {
    workspace_id,
    execution_id: 'execution-1',
    fingerprint: 'f',
    shown,
    command: async () => ({ exec, output_limit_bytes: 100 }),
  }
  executions.run(asked).catch(() => undefined) // ignored: the row has the result
  const left = async () =>
    (await counts(world, 'executions where finished_at is null')) +
    (await counts(world, 'trees where execution_id is not null')) +
    (await counts(world, "machines where kind = 'execution'"))
  const deleted = () =>
    world.db.updateTable('workspaces').set({ deleted_at: now, desired_state: 'deleted' }).where('id', '=', workspace_id).execute()
  return { over: async () => (await left()) === 0, cancel: deleted }
}

async function volume(world: World, kind: 'volume_create' | 'volume_delete'): Promise<Work> {
  const { organization_id, project_id } = await world.db.selectFrom('projects').select(['organization_id', 'id as project_id']).executeTakeFirstOrThrow() // prettier-ignore
  const id = world.ids.next()
  const now = world.clock.now()
  const row = {
    id,
    organization_id,
    project_id,
    cell_id: null,
    name: 'v',
    quota_gib: 1,
    org_shared: false,
    created_at: now,
    updated_at: now,
  }
  await world.db
    .insertInto('volumes')
    .values({ ...row, state: kind === 'volume_create' ? 'creating' : 'deleting', deleted_at: kind === 'volume_create' ? null : now })
    .execute()
  const operation_id = await ask(world, kind, 'volume', id)
  const left = () => counts(world, "volumes where state in ('creating', 'deleting')")
  const over = async () => (await isOver(world, operation_id)()) && (await left()) === 0
  const force = async () => {
    await cancel(world, operation_id)()
    await world.db.updateTable('volumes').set({ state: 'deleting', deleted_at: now }).where('id', '=', id).execute()
    await ask(world, 'volume_delete', 'volume', id)
  }
  return { over, cancel: force }
}

async function attachment(world: World): Promise<Work> {
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const volume_id = await insertVolume(world, workspace_id)
  const now = world.clock.now()
  const own = world.ids.next()
  const row = { id: world.ids.next(), workspace_id, volume_id, mount_path: '/v', mode: 'read_write' as const, place: 0, operation_id: own }
  await world.db
    .insertInto('volume_attachments')
    .values({ ...row, state: 'attaching', created_at: now, updated_at: now })
    .execute()
  const id = await world.operate(workspace_id, 'volume_attach', { id: own })
  const left = () => counts(world, "volume_attachments where state <> 'attached'")
  return { over: async () => (await isOver(world, id)()) && (await left()) === 0, cancel: cancel(world, id) }
}

async function startup(world: World): Promise<Work> {
  const settings = JSON.stringify({ ...SETTINGS, start: [{ name: 'one', argv: ['/bin/one'] }] })
  await world.db.updateTable('template_versions').set({ settings }).execute()
  world.guests.behave = () => 'runs'
  const { operation_id } = await world.open({ startup: { state: 'pending' } })
  const states = (...names: string[]) =>
    counts(world, `workspaces where startup ->> 'state' in (${names.map((name) => `'${name}'`).join()})`)
  await world.until(async () => (await states('running')) === 1)
  const over = async () => (await isOver(world, operation_id)()) && (await states('pending', 'running')) === 0
  return { over, cancel: cancel(world, operation_id), goOn: () => void (world.guests.behave = () => ({ exit: 0 })) }
}

async function warm(world: World): Promise<Work> {
  await world.db
    .updateTable('template_versions')
    .set({ settings: JSON.stringify({ ...SETTINGS, warm: true }) })
    .execute()
  await world.open({ startup: { state: 'pending' } })
  const left = async () =>
    (await counts(world, "template_captures where state in ('wanted', 'making')")) + (await counts(world, "machines where kind = 'build'"))
  const archive = () => world.db.updateTable('template_versions').set({ archived_at: world.clock.now() }).execute()
  return { over: async () => (await left()) === 0, cancel: archive }
}

async function layerList(world: World): Promise<Work> {
  const row = { layer: 'a'.repeat(64), state: 'wanted' as const, reached: null, updated_at: world.clock.now() }
  await world.db.insertInto('layer_lists').values(row).execute()
  await sql`select pg_notify('berth_layer_list', ${row.layer})`.execute(world.db)
  return { over: async () => (await counts(world, "layer_lists where state = 'wanted'")) === 0 }
}

async function open(world: World): Promise<Work> {
  const { workspace_id, operation_id } = await world.open()
  return { over: isOver(world, operation_id), cancel: () => world.operate(workspace_id, 'delete') }
}

/**
 * The kinds of builds and warm captures include build_machine. tests/api/endings.test.ts and exports.test.ts cover the kinds of the api.
 */
type Elsewhere = 'build_machine' | 'organization_deletion' | 'export' | 'pushed_invoice'

const KINDS: Record<Exclude<WorkKindName, Elsewhere> | 'volume_delete', Kind> = {
  execution: { verb: 'start', of: 'execution', begin: execution },
  operation: { verb: 'start', of: 'workspace', begin: open },
  template_build: { verb: 'start', of: 'build', begin: recipeBuild },
  build_capture: { verb: 'makeLayer', of: 'build', begin: saveBuild },
  volume: { verb: 'createVolume', of: null, begin: (world) => volume(world, 'volume_create') },
  volume_delete: { verb: 'deleteVolume', of: null, is_forward: true, begin: (world) => volume(world, 'volume_delete') },
  attachment: { verb: 'setVolumes', of: 'workspace', begin: attachment },
  startup: { verb: null, of: null, begin: startup },
  warm_capture: { verb: 'start', of: 'build', begin: warm },
  layer_list: { verb: 'listLayer', of: null, is_forward: true, begin: layerList },
}

function holding(host: MachineHost, { verb, of }: Kind) {
  const [met, goes_on] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const held: MachineHost = new Proxy(host, {
    get(target, name, receiver) {
      const found: unknown = Reflect.get(target, name, receiver)
      if (name !== verb || typeof found !== 'function') return found
      return async (...given: [{ subject?: { kind: string } }, ...unknown[]]) => {
        if (of === null || given[0].subject?.kind === of) {
          met.resolve()
          await goes_on.promise
        }
        return (found as (...given: unknown[]) => unknown).apply(target, given)
      }
    },
  })
  return { held, met: met.promise, goOn: () => goes_on.resolve() }
}

const WRITTEN = ['executions', 'trees', 'operations', 'machines', 'template_captures', 'checkpoints', 'volumes', 'layer_lists']

type Fault = (world: World, process: Process, work: Work, goOn: () => void) => Promise<Process>

const FAULTS: Record<string, Fault> = {
  async 'its process is killed'(world, process, _work, goOn) {
    await process.kill()
    goOn()
    return world.startProcess()
  },
  async 'the database refuses its writes for a while'(world, process, _work, goOn) {
    const refusing = await refusingWrites(world.db, WRITTEN)
    goOn()
    await refusing.ended()
    return process
  },
  async 'it is canceled'(_world, process, work, goOn) {
    await work.cancel?.()
    goOn()
    return process
  },
  async 'it is canceled, and its process killed'(world, process, work, goOn) {
    await work.cancel?.()
    await process.kill()
    goOn()
    return world.startProcess()
  },
}

for (const [name, kind] of Object.entries(KINDS)) {
  for (const [fault, strike] of Object.entries(FAULTS)) {
    if (kind.is_forward === true && fault.includes('canceled')) continue
    test(`${name}: ${fault}, and it ends and leaves nothing taken`, async () => {
      await using world = await createWorld()
      const { held, met, goOn } = holding(world.host, kind)
      const process = await world.startProcess({ host: held })
      const work = await kind.begin(world, process)
      if (kind.verb !== null) await met
      const { engine, executions } = await strike(world, process, work, work.goOn ?? goOn)
      await world.until(async () => {
        await sql`select pg_notify('berth_layer_list', ''), pg_notify('berth_template_capture', '')`.execute(world.db)
        await executions.endAbandoned()
        await engine.watch()?.sweep()
        return work.over()
      })
      const { machines } = await world.host.inventory()
      assert.deepEqual(machines.filter(({ subject }) => subject.kind !== 'workspace'), []) // prettier-ignore
    })
  }
}

test('work under way beyond its deadline is reported to the operator once', async () => {
  await using world = await createWorld()
  await (await world.startProcess()).close()
  const { id: cell_id } = await world.db.selectFrom('cells').select('id').executeTakeFirstOrThrow()
  const since = new Date(0)
  await world.db.insertInto('layer_lists').values({ layer: 'never', state: 'wanted', reached: null, updated_at: since }).execute()
  const lines: unknown[] = []
  const log = { error: (line: unknown) => void lines.push(line) }
  const told = new Set<string>()
  for (let looks = 0; looks < 2; looks++) {
    await logOverdue({ db: world.database.cell, clock: world.clock, log }, { by: 'cell', cell_id }, told)
    await logOverdue({ db: world.database.api, clock: world.clock, log }, { by: 'api', cell_id: null }, new Set())
  }
  const { worker } = WORK_KINDS.layer_list
  assert.deepEqual(lines, [{ kind: 'layer_list', id: 'never', since, worker }])
})
