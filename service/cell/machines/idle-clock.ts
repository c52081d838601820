import { LIMITS } from '../../../contract/limits.ts'
import { commandBusyUntil, idleFrom, nextIdleEnd, pendingSuspend } from '../../core/workspaces/idle.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { Db } from '../../db/database.ts'
import type { Logger } from 'pino'
import type { AskActivity } from './activity-query.ts'
import { beginBySystem, dropSuspendRequest, noteBusy, readIdle, type IdleRow, type SystemOperation } from './idle-store.ts'
import type { LiveTable } from './live-table.ts'
import { tickEvery, gapAwarePoller } from '../../lib/poll.ts'

export interface IdleContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  table: LiveTable
  log: Logger
  ask_activity: AskActivity
  /** Every workspace counts as active at this time, because this process saw no use before it started. */
  started_at: Date
}

const LOOK_MS = 5000
/** Guests are asked again after this time, because commands may end early. No idle timeout after their end is shorter. */
const ASK_AGAIN_MS = LIMITS.idle.adaptive_seconds_min * 1000

export type LastQueries = Map<string, Date>

export function startIdleClock(context: IdleContext, signal: AbortSignal): void {
  const failed = (error: unknown) => context.log.warn({ err: error }, 'the idle clock could not read workspaces')
  tickEvery(LOOK_MS, idleClock(context), failed, signal)
}

export function idleClock(context: IdleContext): () => Promise<void> {
  const asked: LastQueries = new Map()
  return gapAwarePoller(context.clock, context.started_at, ({ now, since }) => checkIdle({ ...context, started_at: since }, asked, now))
}

export async function checkIdle(context: IdleContext, asked: LastQueries = new Map(), now: Date = context.clock.now()): Promise<void> {
  const rows = await readIdle(context.db, context.cell_id, now)
  forgetOthers(asked, rows)
  for (let at = 0; at < rows.length; at += AT_ONCE_MAX) {
    await Promise.all(rows.slice(at, at + AT_ONCE_MAX).map((row) => lookAt(context, row, asked, now)))
  }
}

/** Limits concurrent checks. A guest may take two seconds to answer: sixty guests in turn would delay all other checks for minutes. */
const AT_ONCE_MAX = 16

async function lookAt(context: IdleContext, row: IdleRow, asked: LastQueries, now: Date): Promise<void> {
  const seen = withUnwrittenActivity(context, row)
  if (seen.suspend_requested_at !== null && pendingSuspend(seen) === null) await dropSuspendRequest(context.db, seen)
  if (context.table.activity.inUse(row.id)) return
  const is_due = (nextIdleEnd(seen)?.at ?? LATER) <= now
  if (!is_due && !askAgain(seen, asked, now)) return
  if (await commandsKeep(context, seen, asked, now)) return
  if (is_due) await end(context, row.id, now)
}

const LATER = new Date(8.64e15)

function forgetOthers(asked: LastQueries, rows: IdleRow[]): void {
  const present = new Set(rows.map(({ id }) => id))
  for (const id of asked.keys()) if (!present.has(id)) asked.delete(id)
}

function askAgain({ id, busy_until }: IdleRow, asked: LastQueries, now: Date): boolean {
  if (busy_until === null || busy_until <= now) return false
  const last = asked.get(id)
  return last === undefined || now.getTime() - last.getTime() >= ASK_AGAIN_MS
}

export function withUnwrittenActivity({ table, started_at }: Pick<IdleContext, 'table' | 'started_at'>, row: IdleRow): IdleRow {
  const last = table.activity.lastActive(row.id)
  const active_at = new Date(Math.max(row.active_at.getTime(), started_at.getTime(), last?.getTime() ?? 0))
  return { ...row, active_at, tool_call_at: later(row.tool_call_at, table.activity.lastToolCall(row.id) ?? null) }
}

function later(a: Date | null, b: Date | null): Date | null {
  return a !== null && (b === null || a > b) ? a : b
}

/** Asks only guests that are due or were busy, because frequent queries to every guest would keep all of them awake. */
async function commandsKeep(context: IdleContext, seen: IdleRow, asked: LastQueries, now: Date): Promise<boolean> {
  const machine = (context.table.get(seen.id) ?? (await context.table.fresh(seen.id)))?.machine
  const said = machine?.state === 'running' ? await context.ask_activity(machine) : null
  const counts_until = said?.busy_until ? commandBusyUntil(said.busy_until, seen, now) : null
  if (counts_until !== null && counts_until > now) {
    asked.set(seen.id, now)
    await noteBusy(context.db, seen.id, counts_until)
    return true
  }
  asked.delete(seen.id)
  const was_busy = seen.busy_until !== null && seen.busy_until > now
  const ended_at = commandBusyUntil(said?.last_ended_at ?? (was_busy ? now : seen.active_at), seen, now)
  if (!was_busy && ended_at <= idleFrom(seen)) return false
  await noteBusy(context.db, seen.id, ended_at < now ? ended_at : now)
  return true
}

/** Checked again on the locked row: a call, a cancellation or a keepalive may have arrived. */
async function end(context: IdleContext, workspace_id: string, now: Date): Promise<void> {
  const begun = await beginBySystem(context, workspace_id, (row) => operationOf(context, row, now), now, 'delete')
  if (begun) context.log.info({ workspace_id, operation_id: begun.id, ...begun.input }, `idle: ${begun.kind}`)
}

function operationOf(context: IdleContext, row: IdleRow, now: Date): SystemOperation | null {
  if (context.table.activity.inUse(row.id)) return null
  const due = nextIdleEnd(withUnwrittenActivity(context, row))
  if (due === null || due.at > now) return null
  const id = context.ids.next()
  if (row.lifetime === 'session') return { id, kind: 'delete', input: { reason: 'idle_timeout' } }
  if (due.asked === null) return { id, kind: 'suspend', input: { reason: 'idle_timeout' } }
  const { requested_at, after_seconds } = due.asked
  return { id, kind: 'suspend', input: { reason: 'requested_after_idle', requested_at: requested_at.toISOString(), after_seconds } }
}
