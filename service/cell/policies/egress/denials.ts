import type { Logger } from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import { EGRESS_DEFAULT, type HostDenial } from '../../../../contract/internal/host-egress.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { MachineHost } from '../../host/hostd.ts'
import { workspaceSubject } from '../../host/subject.ts'
import type { LiveTable } from '../../machines/live-table.ts'
import { createSemaphore } from '../../../lib/bounded.ts'
import { oneAtATime, tickEvery } from '../../../lib/poll.ts'
import type { ObservedPolicies } from './observed-policies.ts'
import { dropOldDenials, writeDenials } from './store.ts'

interface DenialsContext {
  db: Db
  clock: Clock
  host: MachineHost
  table: Pick<LiveTable, 'get'>
  log: Logger
}

const COLLECT_MS = 5000
const DROP_TICKS = 120 // ten minutes
const AT_ONCE_MAX = 8
const ROWS_A_STATEMENT = 5000
const HOUR_MS = 3600_000

export function startDenials(context: DenialsContext, book: ObservedPolicies, signal: AbortSignal): void {
  const collect = denialsCollector(context, book)
  let ticks = 0
  const tick = oneAtATime(async () => {
    ticks += 1
    await collect()
    if (ticks % DROP_TICKS === 0) await dropOld(context)
  })
  tickEvery(COLLECT_MS, tick, (error) => context.log.warn({ err: error }, 'refused connections could not be collected'), signal)
}

export function denialsCollector({ db, host, table, log }: DenialsContext, book: ObservedPolicies): () => Promise<void> {
  const known = new Map<string, Map<string, number>>()
  const collectOf = async (workspace_id: string) => {
    const before = known.get(workspace_id) ?? new Map<string, number>()
    const told = new Map((await host.egressDenials(workspaceSubject(workspace_id))).map((one) => [nameOf(one), printable(one)]))
    const news = [...told].filter(([name, { count }]) => count > 0 && before.get(name) !== count).map(([, one]) => one)
    if (news.length > 0) await writeDenials(db, workspace_id, news)
    known.set(workspace_id, new Map([...told].map(([name, { count }]) => [name, count])))
  }
  return async () => {
    const asked = book.all().filter(({ workspace_id, revision }) => {
      const machine = table.get(workspace_id)?.machine
      return revision !== EGRESS_DEFAULT && machine !== null && machine !== undefined && machine.state !== 'frozen'
    })
    const here = new Set(book.all().map(({ workspace_id }) => workspace_id))
    for (const id of known.keys()) if (!here.has(id)) known.delete(id)
    const inTurn = createSemaphore(AT_ONCE_MAX)
    const ended = await Promise.allSettled(asked.map(({ workspace_id }) => inTurn(() => collectOf(workspace_id))))
    const failed = ended.filter((one) => one.status === 'rejected')
    if (failed.length > 0)
      log.warn({ count: failed.length, err: failed[0]?.reason }, 'refused connections of some machines are not collected yet')
  }
}

async function dropOld({ db, clock }: DenialsContext): Promise<void> {
  const last_before = new Date(clock.now().getTime() - LIMITS.egress.denial_hours * HOUR_MS)
  while ((await dropOldDenials(db, last_before, ROWS_A_STATEMENT)) === ROWS_A_STATEMENT);
}

function nameOf({ protocol, address, name, port, first_at }: HostDenial): string {
  return JSON.stringify([protocol, address ?? name, port, Date.parse(first_at), first_at])
}

/** A guest chooses the names, so only visible ASCII is stored. */
function printable(denial: HostDenial): HostDenial {
  return { ...denial, name: denial.name?.replaceAll(/[^\x21-\x7e]/g, '?').slice(0, NAME_CHARACTERS_MAX) ?? null }
}

const NAME_CHARACTERS_MAX = 255
