import type { Static } from 'typebox'
import type { idleGet } from '../../../../contract/routes/cell/idle.ts'
import type { Awake } from '../../../../contract/schemas/cell/idle.ts'
import { commandBusyUntil, idleFrom, idleRule, nextIdleEnd, pendingSuspend, type IdleFacts } from '../../../core/workspaces/idle.ts'
import { fail } from '../../../lib/fail.ts'
import type { ObservedUse } from '../../machines/activity.ts'
import type { BusyCommand } from '../../machines/activity-query.ts'
import type { GatewayHandler } from '../handler.ts'
import { readIdleEvidence, type IdleEvidence } from './store.ts'

type Kept = Omit<Static<typeof Awake>, 'since' | 'until'> & { since: Date | null; until: Date | null }

export const getIdle: GatewayHandler<typeof idleGet> = async (call, { db, table, showResidency, ask_activity }, ticket) => {
  const { id, machine } = ticket.entry
  const found = await readIdleEvidence(db, id)
  if (found === null) throw fail('not_found', null, 'There is no such workspace')
  const said = machine?.state === 'running' ? await ask_activity(machine) : null
  const use = table.seen(id)
  const commands = commandsThatCount(said?.commands ?? [], found.facts, use, call.now)
  const facts = withSeen(found.facts, use, commands)
  const awake = awakeBy(facts, found, use, commands, call.now)
  // The end of a hold is unknown, so the idle time starts now at the earliest.
  const end = nextIdleEnd(use !== undefined && use.holds.length > 0 ? { ...facts, active_at: call.now } : facts)
  const { active_at, tool_call_at, busy_until, keepalive_until } = facts
  return {
    status: 200,
    body: {
      ...idleRule(facts),
      recent_activity: { active_at, tool_call_at, busy_until, keepalive_until },
      idle_since: awake.length > 0 ? null : idleFrom(facts),
      awake,
      suspend_request: pendingSuspend(facts),
      suspend_at: end?.at ?? null,
      suspend_by: end?.by ?? null,
      residency: showResidency(ticket.entry, (said?.running ?? 0) > 0, call.now),
      failed_suspends: facts.idle_failures,
    },
  }
}

function commandsThatCount(said: BusyCommand[], facts: IdleFacts, use: ObservedUse | undefined, now: Date): BusyCommand[] {
  const active_at = latest(facts.active_at, use?.active_at) ?? now
  return said
    .map((command) => ({ ...command, busy_until: commandBusyUntil(command.busy_until, { active_at }, now) }))
    .filter(({ busy_until }) => busy_until > now)
}

function withSeen(facts: IdleFacts, use: ObservedUse | undefined, commands: BusyCommand[]): IdleFacts {
  return {
    ...facts,
    active_at: latest(facts.active_at, use?.active_at) ?? facts.active_at,
    tool_call_at: latest(facts.tool_call_at, use?.tool_call_at),
    busy_until: latest(facts.busy_until, ...commands.map(({ busy_until }) => busy_until)),
  }
}

function latest(...dates: (Date | null | undefined)[]): Date | null {
  const [last] = dates.filter((date) => date instanceof Date).sort((a, b) => b.getTime() - a.getTime())
  return last ?? null
}

const HOLDS_MAX = 16
const NOTHING = { session_id: null, route: null, operation_id: null }

function awakeBy(facts: IdleFacts, { operation }: IdleEvidence, use: ObservedUse | undefined, commands: BusyCommand[], now: Date): Kept[] {
  const holds = use?.holds.slice(0, HOLDS_MAX) ?? []
  const kept: Kept[] = [
    ...holds.map(({ what, ...hold }) => ({ ...NOTHING, ...hold, kind: what, until: null })),
    ...commands.map(({ session_id, started_at, busy_until }) => ({
      ...NOTHING,
      kind: 'command' as const,
      since: started_at,
      until: busy_until,
      session_id,
    })),
  ]
  const { keepalive_until } = facts
  if (keepalive_until !== null && keepalive_until > now) kept.push({ ...NOTHING, kind: 'keepalive', since: null, until: keepalive_until })
  if (operation !== null) kept.push({ ...NOTHING, kind: 'operation', since: operation.created_at, until: null, operation_id: operation.id })
  return kept
}
