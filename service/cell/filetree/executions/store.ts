import { sql } from 'kysely'
import type { ListedExecution } from '../../../../contract/schemas/cell/lists.ts'
import type { Changed, Execution, ExecutionError, ExecutionTimings } from '../../../../contract/schemas/cell/execution.ts'
import { startsAreAllowed } from '../../../core/money/admission/store.ts'
import type { Db } from '../../../db/database.ts'
import type { Resources } from '../../../db/column-types.ts'

export interface ExecutionKey {
  workspace_id: string
  execution_id: string
}

export interface ExecutionRow extends Omit<Execution, 'stdout' | 'stderr' | 'timings' | 'created_at' | 'finished_at'> {
  fingerprint: string
  stdout: Buffer
  stderr: Buffer
  timings: Partial<ExecutionTimings>
  created_at: Date
  finished_at: Date | null
}

export async function readExecution(db: Db, { workspace_id, execution_id }: ExecutionKey): Promise<ExecutionRow | null> {
  const row = await db
    .selectFrom('executions')
    .select(ROW)
    .where('workspace_id', '=', workspace_id)
    .where('execution_id', '=', execution_id)
    .executeTakeFirst()
  return row ?? null
}

const LISTED = [
  'execution_id', 'state', 'base_revision', 'tree_revision', 'exit_code', 'term_signal', 'timed_out', 'error', 'created_at', 'finished_at',
] as const // prettier-ignore
const ROW = [
  ...LISTED, 'fingerprint', 'stdout', 'stderr', 'stdout_truncated', 'stderr_truncated', 'changed', 'changed_truncated', 'timings',
] as const // prettier-ignore

export interface ListedRow extends Omit<ListedExecution, 'created_at' | 'finished_at'> {
  created_at: Date
  finished_at: Date | null
}

export type ExecutionPlace = Pick<ListedRow, 'created_at' | 'execution_id'>

export async function readExecutions(
  db: Db,
  workspace_id: string,
  { state, after, limit }: { state: 'running' | 'ended' | undefined; after: ExecutionPlace | null; limit: number },
): Promise<ListedRow[]> {
  let query = db
    .selectFrom('executions')
    .select([...LISTED, 'argv', 'argv_truncated', 'cwd'])
    .where('workspace_id', '=', workspace_id)
  if (state !== undefined) query = query.where('finished_at', state === 'running' ? 'is' : 'is not', null)
  if (after !== null)
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('created_at', 'execution_id'), '<', tuple(after.created_at, after.execution_id)),
    )
  return query.orderBy('created_at', 'desc').orderBy('execution_id', 'desc').limit(limit).execute()
}

export interface ShownCommand {
  argv: string[]
  argv_truncated: boolean
  cwd: string
}

export interface NewExecution extends ExecutionKey {
  cell_id: string
  fingerprint: string
  shown: ShownCommand
  now: Date
}

/**
 * Locks the tree and checks the plan in the same statement, so that a reached cap refuses the next command.
 * @returns null if the tree is locked, the execution exists, starts are refused, or the workspace is gone
 */
export async function insertExecution(
  db: Db,
  { workspace_id, execution_id, cell_id, fingerprint, shown, now }: NewExecution,
): Promise<number | null> {
  const { rows } = await sql<{ base_revision: number }>`
    with held as (
      update trees t set execution_id = ${execution_id}
      from workspaces w join organizations g on g.id = w.organization_id join plans p on p.id = g.plan_id
      where t.workspace_id = ${workspace_id} and t.execution_id is null and w.id = t.workspace_id and w.deleted_at is null and ${startsAreAllowed}
        and not exists (select from executions e where e.workspace_id = t.workspace_id and e.execution_id = ${execution_id})
      returning t.workspace_id, t.revision
    )
    insert into executions (workspace_id, execution_id, cell_id, fingerprint, base_revision, created_at, argv, argv_truncated, cwd)
    select workspace_id, ${execution_id}, ${cell_id}, ${fingerprint}, revision, ${now}, ${shown.argv}::text[], ${shown.argv_truncated}, ${shown.cwd}
    from held
    returning base_revision`.execute(db)
  return rows[0]?.base_revision ?? null
}

export async function readTree(
  db: Db,
  workspace_id: string,
): Promise<{ organization_id: string; execution_id: string | null } | undefined> {
  return db
    .selectFrom('trees as t')
    .innerJoin('workspaces as w', 'w.id', 't.workspace_id')
    .select(['w.organization_id', 't.execution_id'])
    .where('t.workspace_id', '=', workspace_id)
    .where('w.deleted_at', 'is', null)
    .executeTakeFirst()
}

/** @returns false if the execution is not queued any more */
export async function grantMachine(
  db: Db,
  { workspace_id, execution_id, cell_id, fence, grants }: ExecutionKey & { cell_id: string; fence: number; grants: Resources },
): Promise<boolean> {
  const { rows } = await sql`
    with running as (
      update executions set state = 'running'
      where workspace_id = ${workspace_id} and execution_id = ${execution_id} and state = 'queued'
      returning workspace_id
    )
    insert into machines (kind, id, workspace_id, organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib,
      epoch, fence)
    select 'execution', w.id, w.id, w.organization_id, w.project_id, ${cell_id}, ${grants.cpu_millis}, ${grants.memory_mib}, ${grants.disk_gib},
      1, ${fence}
    from workspaces w join running r on r.workspace_id = w.id
    on conflict (kind, id) do update set fence = excluded.fence, cell_id = excluded.cell_id, grant_cpu_millis = excluded.grant_cpu_millis,
      grant_memory_mib = excluded.grant_memory_mib, grant_disk_gib = excluded.grant_disk_gib
    returning id`.execute(db)
  return rows.length === 1
}

/** Deletes an execution that never ran, so that the caller may use its id again. */
export async function forgetExecution(db: Db, { workspace_id, execution_id }: ExecutionKey): Promise<void> {
  await sql`
    with forgotten as (
      delete from executions where workspace_id = ${workspace_id} and execution_id = ${execution_id} and finished_at is null returning workspace_id
    )
    update trees t set execution_id = null from forgotten f where t.workspace_id = f.workspace_id and t.execution_id = ${execution_id}`.execute(
    db,
  )
}

export interface Result {
  state: 'succeeded' | 'failed' | 'lost'
  tree_revision: number | null
  exit_code: number | null
  term_signal: string | null
  timed_out: boolean
  stdout: Buffer
  stderr: Buffer
  stdout_truncated: boolean
  stderr_truncated: boolean
  changed: Changed[]
  changed_truncated: boolean
  timings: Partial<ExecutionTimings>
  error: ExecutionError | null
}

/**
 * Also unlocks the tree, in the same statement: a command without changes makes no other write.
 * @param fence null: there is no machine, or the reconciler asks the host about the machine
 * @returns false if the execution had already ended
 */
export async function endExecution(db: Db, { workspace_id, execution_id, ...end }: ExecutionKey & EndOfExecution): Promise<boolean> {
  const { changed, timings, error, ...plain } = end.result
  const ended = await db
    .with('ended', (its) =>
      its
        .updateTable('executions')
        .set({
          ...plain,
          changed: JSON.stringify(changed),
          timings: JSON.stringify(timings),
          error: error === null ? null : JSON.stringify(error),
          finished_at: end.now,
        })
        .where('workspace_id', '=', workspace_id)
        .where('execution_id', '=', execution_id)
        .where('finished_at', 'is', null)
        .returning(['workspace_id', 'execution_id']),
    )
    .with('freed', (its) =>
      its
        .updateTable('trees')
        .set({ execution_id: null })
        .from('ended')
        .whereRef('trees.workspace_id', '=', 'ended.workspace_id')
        .whereRef('trees.execution_id', '=', 'ended.execution_id')
        .returning('trees.workspace_id'),
    )
    .with('dropped', (its) =>
      its
        .deleteFrom('machines')
        .using('ended')
        .where('machines.kind', '=', 'execution')
        .whereRef('machines.id', '=', 'ended.workspace_id')
        .where('machines.fence', '=', end.fence)
        .returning('machines.id'),
    )
    .selectFrom('ended')
    .select('execution_id')
    .executeTakeFirst()
  return ended !== undefined
}

interface EndOfExecution {
  result: Result
  fence: number | null
  now: Date
}

export async function dropMachine(db: Db, workspace_id: string, fence: number): Promise<void> {
  await db.deleteFrom('machines').where('kind', '=', 'execution').where('id', '=', workspace_id).where('fence', '=', fence).execute()
}

export async function readUnfinished(db: Db, cell_id: string): Promise<ExecutionKey[]> {
  return db
    .selectFrom('executions')
    .select(['workspace_id', 'execution_id'])
    .where('cell_id', '=', cell_id)
    .where('finished_at', 'is', null)
    .execute()
}

/** Deletes the rows of machines whose execution has ended. The reconciler removes the machines from the host. */
export async function dropEndedMachines(db: Db, cell_id: string): Promise<number> {
  const { rows } = await sql`
    delete from machines m where m.kind = 'execution' and m.cell_id = ${cell_id} and not exists (
      select from executions e where e.workspace_id = m.id and e.finished_at is null)
    returning m.id`.execute(db)
  return rows.length
}

export async function readOwner(db: Db, workspace_id: string): Promise<string | null> {
  const row = await db.selectFrom('workspaces').select('organization_id').where('id', '=', workspace_id).executeTakeFirst()
  return row?.organization_id ?? null
}

/**
 * Deletes outputs and changes of the oldest results above `bytes_max`; the states of the executions remain. @returns the number of emptied
 * results
 */
export async function emptyOldResults(db: Db, organization_id: string, bytes_max: number): Promise<number> {
  const { rows } = await sql`
    with sized as (
      select e.workspace_id, e.execution_id, octet_length(e.stdout) + octet_length(e.stderr) + pg_column_size(e.changed) as bytes,
        sum(octet_length(e.stdout) + octet_length(e.stderr) + pg_column_size(e.changed)) over (order by e.finished_at desc, e.execution_id) as total
      from executions e join workspaces w on w.id = e.workspace_id
      where w.organization_id = ${organization_id} and e.finished_at is not null
    )
    update executions e set stdout = '', stderr = '', changed = '[]',
      stdout_truncated = e.stdout_truncated or e.stdout <> '', stderr_truncated = e.stderr_truncated or e.stderr <> '',
      changed_truncated = e.changed_truncated or e.changed <> '[]'::jsonb
    from sized s
    where s.total > ${bytes_max} and s.bytes > ${EMPTY_BYTES} and e.workspace_id = s.workspace_id and e.execution_id = s.execution_id
    returning e.execution_id`.execute(db)
  return rows.length
}

const EMPTY_BYTES = 16

const BATCH = 500

export async function dropOldExecutions(db: Db, cell_id: string, before: Date): Promise<number> {
  const { rows } = await sql`
    delete from executions e using (
      select workspace_id, execution_id from executions where finished_at < ${before} and cell_id = ${cell_id}
      order by finished_at limit ${BATCH}
    ) old where e.workspace_id = old.workspace_id and e.execution_id = old.execution_id
    returning e.execution_id`.execute(db)
  return rows.length
}

/** @returns the workspaces on which a command ran since `since`. The host retains its copy of their trees. */
export async function readRunOn(db: Db, ids: readonly string[], since: Date): Promise<Set<string>> {
  const { rows } = await sql<{ workspace_id: string }>`
    select distinct e.workspace_id from executions e join workspaces w on w.id = e.workspace_id
    where e.workspace_id = any(${ids}::uuid[]) and w.deleted_at is null and (e.finished_at is null or e.finished_at >= ${since})`.execute(
    db,
  )
  return new Set(rows.map(({ workspace_id }) => workspace_id))
}
