import type { Logger } from 'pino'
import type { MachineCounters } from '../../../contract/internal/host-inventory.ts'
import type { MachineHost } from '../host/hostd.ts'
import { subjectName } from '../host/subject.ts'

/** The last counters of machines wait until they are written, so a database outage loses none. */
export interface FinalCounters {
  add(counters: MachineCounters): void
  flush(): Promise<void>
}

const WAITING_MAX = 10_000
const BATCH = 500

export function finalCounters(write: (read: MachineCounters[]) => Promise<void>, log: Logger): FinalCounters {
  const waiting = new Map<string, MachineCounters>()
  let writing: Promise<void> | null = null
  const writeAll = async () => {
    for (let batch = [...waiting].slice(0, BATCH); batch.length > 0; batch = [...waiting].slice(0, BATCH)) {
      await write(batch.map(([, one]) => one))
      for (const [name, one] of batch) if (waiting.get(name) === one) waiting.delete(name)
    }
  }
  const flush = () => (writing ??= writeAll().finally(() => (writing = null)))
  return {
    add(counters) {
      const name = `${subjectName(counters.subject)}:${counters.fence}`
      waiting.delete(name) // reinserted at the end: the first entry is the oldest
      waiting.set(name, counters)
      const [oldest] = waiting.keys()
      if (waiting.size > WAITING_MAX && oldest !== undefined) waiting.delete(oldest)
      flush().catch((error: unknown) => log.warn({ err: error }, 'the last counters of machines wait to be written'))
    },
    flush,
  }
}

export function metered(host: MachineHost, final: Pick<FinalCounters, 'add'>): MachineHost {
  const told = async (answer: Promise<MachineCounters | null>) => {
    const counters = await answer
    if (counters !== null) final.add(counters)
    return counters
  }
  return {
    ...host,
    stop: (request) => told(host.stop(request)),
    deleteSubject: (request) => told(host.deleteSubject(request)),
    async checkpoint(request) {
      const info = await host.checkpoint(request)
      if (info.counters !== undefined) final.add(info.counters)
      return info
    },
    async *events(after, signal) {
      for await (const event of host.events(after, signal)) {
        if (event.counters !== undefined) final.add(event.counters)
        yield event
      }
    },
  }
}
