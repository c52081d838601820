import { sql } from 'kysely'
import type { OperationKind } from '../../contract/states/operation.ts'
import type { Db } from '../../service/db/database.ts'
import type { Resources, StartupState } from '../../service/db/column-types.ts'
import { WAITS_FOR_CAPTURE } from '../../service/core/workspaces/operations/store.ts'
import type { Clock } from '../../service/lib/clock.ts'
import type { Ids } from '../../service/lib/ids.ts'
import { patience } from '../support/patience.ts'

export interface Intentions {
  newWorkspace(options?: NewWorkspace): Promise<string>
  operate(workspace_id: string, kind: string, options?: { source?: string; input?: object; id?: string }): Promise<string>
  open(options?: NewWorkspace): Promise<Asked>
  fork(source: string, options?: NewWorkspace): Promise<Asked>
  another(): Promise<Pick<Intentions, 'open'>>
  ended(operation_id: string): Promise<OperationRow>
  workspace(workspace_id: string): Promise<WorkspaceRow>
  operation(operation_id: string): Promise<OperationRow>
}

export interface Asked {
  workspace_id: string
  operation_id: string
}

export interface NewWorkspace {
  resources?: Partial<Resources>
  lifetime?: 'persistent' | 'session'
  idle_policy?: string
  draft_state_id?: string
  startup?: StartupState
  inputs?: Record<string, string>
}

export type WorkspaceRow = Awaited<ReturnType<typeof readWorkspace>>
export type OperationRow = Awaited<ReturnType<typeof readOperation>>

const readWorkspace = (db: Db, id: string) => db.selectFrom('workspaces').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const readOperation = (db: Db, id: string) => db.selectFrom('operations').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

export class DeletedError extends Error {}

interface Writer {
  db: Db
  clock: Clock
  ids: Ids
  project: { organization_id: string; project_id: string; template_version_id: string }
}

export async function createIntentions(db: Db, clock: Clock, ids: Ids, layers: string[]): Promise<Intentions> {
  const writer: Writer = { db, clock, ids, project: await makeProject(db, ids, clock, layers) }
  const operate: Intentions['operate'] = (workspace_id, kind, options = {}) => insertOperation(writer, workspace_id, kind, options)
  const newWorkspace: Intentions['newWorkspace'] = (wanted) => insertWorkspace(writer, 'creating', wanted)
  // One transaction, as in the API: the reconciler would settle a workspace without an operation.
  const withOperation = (state: string, kind: string, wanted: NewWorkspace | undefined, options: { source?: string }, of = writer) =>
    db.transaction().execute(async (tx) => {
      const workspace_id = await insertWorkspace({ ...of, db: tx }, state, wanted)
      return { workspace_id, operation_id: await insertOperation({ ...of, db: tx }, workspace_id, kind, options) }
    })
  return {
    newWorkspace,
    operate,
    open: (wanted) => withOperation('creating', 'open', wanted, {}),
    fork: (source, wanted) => withOperation('forking', 'fork', wanted, { source }),
    async another() {
      const project = { ...writer.project, ...(await makeTenant(db, ids, clock, await planOf(db))) }
      return { open: (wanted) => withOperation('creating', 'open', wanted, {}, { ...writer, project }) }
    },
    ended: (id) =>
      until(async () => {
        const row = await readOperation(db, id)
        return row.completed_at !== null && row
      }),
    workspace: (id) => readWorkspace(db, id),
    operation: (id) => readOperation(db, id),
  }
}

export async function until<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  for (const deadline_ms = performance.now() + patience(60_000); performance.now() < deadline_ms;) {
    const seen = await look()
    if (seen !== undefined && seen !== false) return seen
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error('It did not come to it')
}

const DESIRED: Record<string, 'running' | 'suspended' | 'deleted'> = { suspend: 'suspended', delete: 'deleted' }

async function insertOperation(
  writer: Writer,
  workspace_id: string,
  kind: string,
  options: { source?: string; input?: object; id?: string },
): Promise<string> {
  const { db, clock, ids, project } = writer
  const { source, input = {}, id = ids.next() } = options
  const now = clock.now()
  const { organization_id, project_id } = project
  const write = async (tx: Db) => {
    const { observed_state } = await tx
      .selectFrom('workspaces')
      .select('observed_state')
      .where('id', '=', workspace_id)
      .forUpdate()
      .executeTakeFirstOrThrow()
    if (observed_state === 'deleted') throw new DeletedError('The workspace has been deleted')
    const { cell_id } = await readWorkspace(tx, source ?? workspace_id)
    if (kind === 'delete') await cancelActive(tx, workspace_id, now)
    const joins = source !== undefined && (await isForked(tx, source))
    const values = {
      id,
      organization_id,
      project_id,
      workspace_id,
      source_workspace_id: source ?? null,
      kind: kind as OperationKind, // the column's check refuses others
      cell_id,
      created_at: now,
      updated_at: now,
    }
    await tx
      .insertInto('operations')
      .values({ ...values, state: 'queued', step: joins ? WAITS_FOR_CAPTURE : null, input: JSON.stringify(input) })
      .execute()
    for (const held of source === undefined || joins ? [workspace_id] : [workspace_id, source]) {
      await tx.insertInto('workspace_holds').values({ workspace_id: held, operation_id: id, gate: 'closed' }).execute()
    }
    const deletion = kind === 'delete' ? { deleted_at: now } : {}
    await tx
      .updateTable('workspaces')
      .set({ desired_state: DESIRED[kind] ?? 'running', ...deletion })
      .where('id', '=', workspace_id)
      .execute()
  }
  await (db.isTransaction ? write(db) : db.transaction().execute(write))
  return id
}

/** The lock on the fork's row makes it wait until this transaction ends. */
async function isForked(tx: Db, source: string): Promise<boolean> {
  const holder = () =>
    tx
      .selectFrom('workspace_holds as h')
      .innerJoin('operations as o', 'o.id', 'h.operation_id')
      .select('o.id')
      .where('h.workspace_id', '=', source)
      .where('o.source_workspace_id', '=', source)
      .where('o.kind', '=', 'fork')
      .where('o.completed_at', 'is', null)
  let seen = await holder().executeTakeFirst()
  while (seen !== undefined) {
    await tx.selectFrom('operations').select('id').where('id', '=', seen.id).forNoKeyUpdate().execute()
    const now = await holder().executeTakeFirst()
    if (now?.id === seen.id) return true
    seen = now // the source was handed to the next fork during the wait for its row
  }
  return false
}

async function cancelActive(tx: Db, workspace_id: string, now: Date): Promise<void> {
  // Waiting forks end first, because a holder that ends hands its source to the next.
  const error = JSON.stringify({ code: 'canceled', message: 'Deleted', retryable: false })
  const canceled = { state: 'canceled' as const, completed_at: now, error }
  const joined = tx
    .updateTable('operations')
    .set(canceled)
    .where('source_workspace_id', '=', workspace_id)
    .where('step', '=', WAITS_FOR_CAPTURE)
  const waiting = await joined.where('completed_at', 'is', null).returning('id').execute()
  const holds = await tx.selectFrom('workspace_holds').selectAll().where('workspace_id', '=', workspace_id).execute()
  const ended = [...waiting.map(({ id }) => id)]
  for (const { operation_id: id } of holds) {
    // When its fork is deleted, an adoption continues.
    const { kind, workspace_id: own } = await tx
      .selectFrom('operations')
      .select(['kind', 'workspace_id'])
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    if (kind !== 'adopt' || own === workspace_id) ended.push(id)
    else await tx.deleteFrom('workspace_holds').where('operation_id', '=', id).where('workspace_id', '=', workspace_id).execute()
  }
  for (const id of ended) {
    await tx.updateTable('operations').set(canceled).where('id', '=', id).where('completed_at', 'is', null).execute()
    await tx.deleteFrom('workspace_holds').where('operation_id', '=', id).execute()
  }
}

async function makeProject(db: Db, ids: Ids, clock: Clock, layers: string[]): Promise<Writer['project']> {
  const created_at = clock.now()
  const [plan_id, template_id, template_version_id] = [ids.next(), ids.next(), ids.next()]
  await sql`insert into plans (id, slug, name, created_at) values (${plan_id}, 'unlimited', 'Unlimited', ${created_at})`.execute(db)
  const tenant = await makeTenant(db, ids, clock, plan_id)
  await db.insertInto('templates').values({ id: template_id, organization_id: null, slug: 'base', created_at, archived_at: null }).execute()
  const settings = JSON.stringify({ env: { GREETING: 'hello' }, inputs: {}, defaults: {}, ceiling: {} })
  const version = { id: template_version_id, template_id, version: 1, layered: true, layers, settings, created_at }
  await db
    .insertInto('template_versions')
    .values({ ...version, published_at: created_at, archived_at: null })
    .execute()
  return { ...tenant, template_version_id }
}

async function planOf(db: Db): Promise<string> {
  return (await db.selectFrom('plans').select('id').executeTakeFirstOrThrow()).id
}

async function makeTenant(db: Db, ids: Ids, clock: Clock, plan_id: string): Promise<Omit<Writer['project'], 'template_version_id'>> {
  const created_at = clock.now()
  const [organization_id, project_id] = [ids.next(), ids.next()]
  const slug = `o-${organization_id}`
  await db
    .insertInto('organizations')
    .values({ id: organization_id, name: 'O', slug, plan_id, allowance_exhausted: null, created_at })
    .execute()
  await db.insertInto('projects').values({ id: project_id, organization_id, name: 'P', slug: 'p', created_at }).execute()
  return { organization_id, project_id }
}

async function insertWorkspace({ db, clock, ids, project }: Writer, observed_state: string, wanted: NewWorkspace = {}): Promise<string> {
  const id = ids.next()
  const now = clock.now()
  const { cpu_millis = 1000, memory_mib = 512, disk_gib = 4 } = wanted.resources ?? {}
  const values = {
    id,
    ...project,
    key: id,
    observed_state,
    desired_state: 'running',
    lifetime: wanted.lifetime ?? 'persistent',
    mode: 'processful',
    disk_layout: 'layered',
    ceiling_cpu_millis: cpu_millis,
    ceiling_memory_mib: memory_mib,
    ceiling_disk_gib: disk_gib,
    idle_policy: wanted.idle_policy ?? null,
    draft_state_id: wanted.draft_state_id ?? null,
    startup: wanted.startup === undefined ? null : JSON.stringify(wanted.startup),
    inputs: JSON.stringify(wanted.inputs ?? {}),
    active_at: now,
    created_at: now,
    updated_at: now,
  }
  await db
    .insertInto('workspaces')
    .values(values as never) // columns that are null or have defaults are left out
    .execute()
  await db
    .insertInto('workspace_keys')
    .values({ organization_id: project.organization_id, project_id: project.project_id, key: id, workspace_id: id })
    .execute()
  return id
}
