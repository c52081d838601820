import { LIMITS } from '../../../contract/limits.ts'
import { nextEligibleAt, pendingSuspend, type PendingSuspend } from '../../core/workspaces/idle.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { Db } from '../../db/database.ts'
import type { Logger } from 'pino'
import type { AskActivity } from './ask-activity.ts'
import { beginBySystem, dropSuspendRequest, noteBusy, readIdle, type IdleRow, type SystemOperation } from './idle-store.ts'
import type { LiveTable } from './live-table.ts'

export interface IdleContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  table: LiveTable
  log: Logger
  ask_activity: AskActivity
  /** Everything counts as active when the process starts: what it did not see cannot be held against anybody. */
  started_at: Date
}

const LOOK_MS = 5000

/** Suspends what has been idle long enough, and ends idle sessions. */
export function startIdleClock(context: IdleContext, signal: AbortSignal): void {
  let looking = false
  const timer = setInterval(() => {
    if (looking) return
    looking = true
    look(context)
      .catch((error: unknown) => context.log.warn({ err: error }, 'the idle clock could not look'))
      .finally(() => {
        looking = false
      })
  }, LOOK_MS)
  timer.unref()
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}

/** One look at every running workspace. */
export async function look(context: IdleContext): Promise<void> {
  const now = context.clock.now()
  for (const row of await readIdle(context.db, context.cell_id)) {
    const seen = withMemory(context, row)
    if (seen.suspend_requested_at !== null && pendingSuspend(seen) === null) await dropSuspendRequest(context.db, seen)
    if (context.table.activity.inUse(row.id)) continue
    const eligible_at = nextEligibleAt(seen)
    if (eligible_at === null || eligible_at > now || (await isBusy(context, row.id, now))) continue
    await end(context, row, seen, now)
  }
}

/** The row as it would be if everything in memory were written. */
function withMemory({ table, started_at }: IdleContext, row: IdleRow): IdleRow {
  const last = table.activity.lastActive(row.id)
  const active_at = new Date(Math.max(row.active_at.getTime(), started_at.getTime(), last?.getTime() ?? 0))
  return { ...row, active_at, tool_call_at: table.activity.lastToolCall(row.id) ?? row.tool_call_at }
}

/** Only what is about to be suspended is asked: a question to every guest every few seconds would keep them all awake. */
async function isBusy(context: IdleContext, workspace_id: string, now: Date): Promise<boolean> {
  const machine = context.table.get(workspace_id)?.machine
  if (!machine) return false
  const said = await context.ask_activity(machine)
  if (said === null || said <= now) return false
  const latest = new Date(now.getTime() + LIMITS.command_busy_seconds_max * 1000)
  await noteBusy(context.db, workspace_id, said < latest ? said : latest)
  // Idleness counts from the end of the command, which may come long before its time is up.
  context.table.touch(workspace_id, 'other')
  return true
}

async function end(context: IdleContext, row: IdleRow, seen: IdleRow, now: Date): Promise<void> {
  const operation: SystemOperation = { id: context.ids.next(), ...cause(seen, now) }
  const begun = await beginBySystem(context.db, row, operation, now)
  if (begun) context.log.info({ workspace_id: row.id, operation_id: operation.id, ...operation.input }, `idle: ${operation.kind}`)
}

function cause(seen: IdleRow, now: Date): Pick<SystemOperation, 'kind' | 'input'> {
  if (seen.lifetime === 'session') return { kind: 'delete', input: { reason: 'idle_timeout' } }
  const asked = pendingSuspend(seen)
  if (asked === null || !isDue(asked, seen, now)) return { kind: 'suspend', input: { reason: 'idle_timeout' } }
  const { requested_at, after_seconds } = asked
  return { kind: 'suspend', input: { reason: 'requested_after_idle', requested_at: requested_at.toISOString(), after_seconds } }
}

function isDue(asked: PendingSuspend, { active_at }: IdleRow, now: Date): boolean {
  return asked.not_before <= now && active_at.getTime() + asked.after_seconds * 1000 <= now.getTime()
}
