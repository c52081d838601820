import { MEASURES_MAX } from '../../../contract/internal/host-disks.ts'
import type { MachineCounters } from '../../../contract/internal/host-inventory.ts'
import { workspaceSubject } from '../host/subject.ts'
import { withTimeout } from '../../lib/poll.ts'
import type { MachineFacts } from './eviction-facts.ts'
import { evictability, isOfAge } from './eviction-rules.ts'
import type { EvictionContext } from './evictor.ts'
import { wasBusy, type Counters } from './residency-rules.ts'

/** Time limit of a query to the host or to a guest, so that a missing answer does not block the evictor. */
export const ANSWER_MS = 5000
/** Shortest time between two samples in which the use of a busy guest shows. */
const CLOSER_MS_MIN = 150
const RESTS_MS = 500
const LONG_AGO = new Date(0)

interface Sample {
  fence: number
  counters: Counters
  looked_ms: number
}

/** Samples of evictable machines between two passes of the residency clock, so that a waiting request need not wait for the next pass. */
export interface ExtraSamples {
  readonly last: Map<string, Sample>
  /** Machines whose last two samples show no use. They count as idle until `until_ms`. */
  readonly resting: Map<string, { fence: number; until_ms: number }>
}

type SamplingContext = Pick<EvictionContext, 'host' | 'watched' | 'questions' | 'clock' | 'table'>

export async function takeExtraSamples(context: SamplingContext, samples: ExtraSamples, facts: readonly MachineFacts[]): Promise<void> {
  const { clock } = context
  const now = clock.now()
  const due = facts
    .filter((one) => one.state === 'running' && evictability(one, now) === 'soon' && isOfAge(one, now))
    .slice(0, MEASURES_MAX)
  const ids = new Set(due.map(({ id }) => id))
  for (const id of samples.last.keys()) if (!ids.has(id)) samples.last.delete(id)
  for (const [id, { until_ms }] of samples.resting) if (until_ms <= clock.monotonic_ms()) samples.resting.delete(id)
  if (due.length === 0) return
  const ended = new Map(due.map(({ id }) => [id, callsOf(context, id)?.ended ?? 0]))
  const looked_ms = clock.monotonic_ms()
  for (const measured of await measure(context, ids)) {
    const { id } = measured.subject
    noteSample(context, samples, id, { fence: measured.fence, looked_ms, counters: countersOf(context, measured, ended.get(id) ?? 0) })
  }
}

function noteSample({ watched }: SamplingContext, { last, resting }: ExtraSamples, id: string, sample: Sample): void {
  const { fence, counters, looked_ms } = sample
  const before = last.get(id) ?? watched.get(id)
  if (before?.fence !== fence) return void last.set(id, sample)
  if (looked_ms - before.looked_ms < CLOSER_MS_MIN) return
  if (!wasBusy(before.counters, counters, looked_ms - before.looked_ms)) resting.set(id, { fence, until_ms: looked_ms + RESTS_MS })
  last.set(id, sample)
}

function countersOf(context: SamplingContext, measured: MachineCounters, questions_ended: number): Counters {
  const { subject, cpu_usec, rx_bytes, tx_bytes } = measured
  return { cpu_usec, rx_bytes, tx_bytes, questions_ended, questions_begun: callsOf(context, subject.id)?.begun ?? 0 }
}

function callsOf({ table, questions }: SamplingContext, id: string) {
  const machine = table.get(id)?.machine
  return machine ? questions.of(machine) : undefined
}

function measure({ host }: SamplingContext, ids: ReadonlySet<string>) {
  return withTimeout(ANSWER_MS, 'the counters of machines', host.stats([...ids].map(workspaceSubject)))
}

export function withExtraSamples({ clock }: SamplingContext, { resting }: ExtraSamples, facts: MachineFacts): MachineFacts {
  const rest = resting.get(facts.id)
  return rest?.fence === facts.fence && rest.until_ms > clock.monotonic_ms() ? { ...facts, busy_at: LONG_AGO } : facts
}
