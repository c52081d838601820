import type { MachineCounters } from '../../contract/internal/host-inventory.ts'
import { LIMITS } from '../../contract/limits.ts'
import { reconcile, type Reconciled } from '../core/money/usage/reconcile.ts'
import type { Db } from '../db/database.ts'
import { readCounters, type CountersRow } from './doctor-usage-store.ts'
import type { Finding } from './doctor-checks.ts'

const HOUR_MS = 3600_000
/** The doctor compares only recent hours. `usage reconcile` compares more. */
const COMPARED_HOURS = 48
/** The cell reads counters every 15 seconds, so older ones are reported. */
const READ_SECONDS_MAX = 120

export type HostCounters = Pick<MachineCounters, 'subject' | 'fence' | 'cpu_usec' | 'received_bytes' | 'sent_bytes'>

export interface UsageFacts extends Reconciled {
  counters: CountersRow[]
}

export async function readUsageFacts(db: Db, now: Date): Promise<UsageFacts> {
  const from = new Date(now.getTime() - COMPARED_HOURS * HOUR_MS)
  return { ...(await reconcile(db, from, now)), counters: await readCounters(db, from) }
}

/** @param host must be read after the database, so that its counters are never below the rows; null: hostd does not answer. */
export function ofUsage({ differences, late, counters }: UsageFacts, host: readonly HostCounters[] | null, now: Date): Finding[] {
  const wrong = (text: string): Finding => ({ check: 'usage', level: 'wrong', text })
  const machines = (host ?? []).filter(({ subject }) => subject.kind === 'workspace')
  const found = [
    ...differences.map(({ kind, id, meter, found, should_be }) => `${kind} of ${id}: ${meter} is ${found} and should be ${should_be}`),
    ...machines.flatMap((machine) => ofMachine(machine, counters, now)),
  ]
  const [first] = found
  return [
    first === undefined
      ? {
          check: 'usage',
          level: 'ok',
          text: `Ledger, samples and counters are the same; ${machines.length} machines' counters were read of late`,
        }
      : wrong(`${first}${found.length > 1 ? ` and ${found.length - 1} more` : ''}; npm run admin -- usage reconcile names them all`),
    ...(late === 0
      ? []
      : [wrong(`${late} samples wait to become entries for more than ${LIMITS.usage.final_after_hours + 24} hours: no cell closes them`)]),
  ]
}

function ofMachine({ subject: { id }, fence, ...now_there }: HostCounters, counters: readonly CountersRow[], now: Date): string[] {
  const row = counters.find((one) => one.workspace_id === id && one.fence === fence)
  if (row === undefined) return [] // the machine has just started
  const more = (['cpu_usec', 'received_bytes', 'sent_bytes'] as const).filter((name) => row[name] > now_there[name])
  const silent_seconds = Math.round((now.getTime() - row.read_at.getTime()) / 1000)
  return [
    ...more.map((name) => `counters of ${id}: ${name} was read as ${row[name]}, and its machine has ${now_there[name]}`),
    ...(silent_seconds > READ_SECONDS_MAX ? [`counters of ${id} were read ${silent_seconds} s ago`] : []),
  ]
}
