import { startRefusal } from '../../../core/money/admission/plan.ts'
import { readPlan } from '../../../core/money/admission/store.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { executionInProgress } from '../tree-calls/calls.ts'
import { errorOf, explain, NoHost, Unsuccessful } from './outcome.ts'
import type { Output } from './output.ts'
import { ofOutput, publish } from './publish.ts'
import { boundedResults } from './results.ts'
import {
  abandon,
  begin,
  type StartedMachine,
  type Command,
  execute,
  type ExecutionDeps,
  prepare,
  type Run,
  acquireCapacity,
  timed,
} from './run.ts'
import {
  dropEndedMachines,
  endExecution,
  type ExecutionKey,
  type ExecutionRow,
  forgetExecution,
  insertExecution,
  readExecution,
  readTree,
  readUnfinished,
  type Result,
  type ShownCommand,
} from './store.ts'
import { retryWrite } from './retry-write.ts'

export interface ExecutionRequest extends ExecutionKey {
  fingerprint: string
  shown: ShownCommand
  /** Not called if the execution already exists. */
  command(): Promise<Command>
}

export interface Executions {
  /** A run continues when its callers disconnect. @throws a Failure for every refusal; no command has run in that case */
  run(asked: ExecutionRequest): Promise<{ row: ExecutionRow; ran: boolean }>
  find(key: ExecutionKey): Promise<ExecutionRow | null>
  /** Called at the start. The progress of executions of an earlier process is unknown, so they end as lost. */
  recover(): Promise<void>
  /** Ends executions whose result could not be written. @returns the number of executions and machine rows removed */
  endAbandoned(): Promise<number>
}

interface Live {
  fingerprint: string
  done: Promise<{ row: ExecutionRow; ran: boolean }>
}

export function createExecutions(deps: ExecutionDeps): Executions {
  const live = new Map<string, Live>()
  const nameOf = ({ workspace_id, execution_id }: ExecutionKey) => `${workspace_id} ${execution_id}`
  const results = boundedResults(deps)
  const find = (key: ExecutionKey) => readExecution(deps.db, key)

  const start = async (asked: ExecutionRequest): Promise<{ row: ExecutionRow; ran: boolean }> => {
    const known = await find(asked)
    if (known !== null) return { row: matching(known, asked), ran: false }
    const command = await asked.command()
    ;(await deps.trees.reserve.take(0))[Symbol.dispose]() // the result and the changes need the database's disk
    await failpoint('execution.E1')
    const base_revision = await insertExecution(deps.db, { ...asked, cell_id: deps.cell_id, now: deps.clock.now() })
    if (base_revision === null) return { row: await notRecorded(asked), ran: false }
    await drive(deps, asked, base_revision, command)
    const row = await find(asked)
    if (row === null) throw gone()
    void results.note(asked.workspace_id, row) // note() never rejects, and the caller need not wait for it
    await failpoint('execution.E7')
    return { row, ran: true }
  }
  const notRecorded = async (asked: ExecutionRequest): Promise<ExecutionRow> => {
    const known = await find(asked)
    if (known !== null) return matching(known, asked)
    const tree = await readTree(deps.db, asked.workspace_id)
    if (tree === undefined) throw gone()
    if (tree.execution_id !== null) throw executionInProgress(tree.execution_id)
    throw startRefusal(await readPlan(deps.db, tree.organization_id)) ?? executionInProgress(asked.execution_id)
  }
  return {
    find,
    async run(asked) {
      const name = nameOf(asked)
      const other = live.get(name)
      if (other !== undefined) {
        if (other.fingerprint !== asked.fingerprint) throw reused(asked)
        return { ...(await other.done), ran: false }
      }
      const done = start(asked).finally(() => live.delete(name))
      live.set(name, { fingerprint: asked.fingerprint, done })
      return done
    },
    async recover() {
      for (const key of await readUnfinished(deps.db, deps.cell_id)) {
        const why = live.has(nameOf(key))
          ? new Unsuccessful('lost', 'lease_expired', 'The process that ran it did not act for the cell any more')
          : new Unsuccessful('lost', 'host_restarted', 'The process that ran it has ended')
        await endExecution(deps.db, { ...key, result: nothing(why), fence: null, now: deps.clock.now() })
      }
      await dropEndedMachines(deps.db, deps.cell_id)
    },
    async endAbandoned() {
      // The rows are read before `live` is checked: an execution that begins later is live, and an ended one accepts no second result.
      const abandoned = (await readUnfinished(deps.db, deps.cell_id)).filter((key) => !live.has(nameOf(key)))
      const why = new Unsuccessful('lost', 'lease_expired', 'How the command ended could not be written down')
      for (const key of abandoned) await endExecution(deps.db, { ...key, result: nothing(why), fence: null, now: deps.clock.now() })
      const dropped = await dropEndedMachines(deps.db, deps.cell_id)
      if (dropped > 0) deps.room.released()
      return abandoned.length + dropped
    },
  }
}

/** Rejects if no command ran and no result is recorded, or if the database is unavailable. */
async function drive(deps: ExecutionDeps, key: ExecutionKey, base_revision: number, command: Command): Promise<void> {
  let run: Run | null = null
  let begun: StartedMachine | null = null
  let output: Output | null = null
  try {
    const prepared = await prepare(deps, key, base_revision)
    run = prepared
    await timed(run, 'queued', () => acquireCapacity(prepared))
    begun = await begin(run)
    output = await execute(run, begun, command)
    await publish(run, begun, output)
  } catch (error) {
    if (error instanceof NoHost && output === null) {
      if (run !== null) await abandon(run, begun)
      return refuse(deps, key)
    }
    const why = explain(error)
    deps.log[why.reason === 'internal_error' ? 'error' : 'info']({ ...key, reason: why.reason, err: error }, 'an execution did not succeed')
    if (run !== null) await abandon(run, begun)
    const result = { ...nothing(why), ...(output === null ? {} : ofOutput(output)), timings: run?.timings ?? {} }
    await retryWrite(() => endExecution(deps.db, { ...key, result, fence: null, now: deps.clock.now() }))
  }
}

/** Deletes the execution, so that the caller may use the same id again (Cell, "File-first rules" 3). */
async function refuse(deps: ExecutionDeps, key: ExecutionKey): Promise<never> {
  await retryWrite(() => forgetExecution(deps.db, key))
  throw fail('service_unavailable', 'no_execution_host', 'No host has room for the command at the moment', { retry_after_seconds: 2 })
}

function nothing(why: Unsuccessful): Result {
  const empty = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0), stdout_truncated: false, stderr_truncated: false }
  const unknown = { tree_revision: null, exit_code: null, term_signal: null, timed_out: false, changed: [], changed_truncated: false }
  return { state: why.state, ...unknown, ...empty, timings: {}, error: errorOf(why) }
}

function matching(row: ExecutionRow, { fingerprint, execution_id }: ExecutionRequest): ExecutionRow {
  if (row.fingerprint !== fingerprint) throw reused({ execution_id })
  // The execution is unfinished but not live in this process: another process runs it.
  if (row.finished_at === null) throw executionInProgress(execution_id)
  return row
}

function reused({ execution_id }: Pick<ExecutionRequest, 'execution_id'>): Failure {
  return fail('conflict', 'execution_id_reused', 'The execution_id was used for another request', { details: { execution_id } })
}

function gone(): Failure {
  return fail('unauthenticated', 'revoked_workspace', 'The workspace was deleted')
}
