import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { oneAtATime, tickEvery } from '../../lib/poll.ts'
import type { Count } from './frames.ts'
import { addUse, type FoundCredential, type PortUse } from './store.ts'

export interface UseLedger {
  count(found: FoundCredential, counted: Count): void
  flush(): Promise<void>
}

const FLUSH_MS = 3000
const WRITTEN_MAX = 1000

export function createUseLedger({ db, clock }: { db: Db; clock: Clock }): UseLedger {
  let uses = new Map<string, PortUse>()
  const add = (use: PortUse) => {
    const before = uses.get(use.port_id)
    uses.set(
      use.port_id,
      before === undefined
        ? use
        : {
            ...use,
            requests: before.requests + use.requests,
            received_bytes: before.received_bytes + use.received_bytes,
            sent_bytes: before.sent_bytes + use.sent_bytes,
            last_request_at: before.last_request_at > use.last_request_at ? before.last_request_at : use.last_request_at,
          },
    )
  }
  return {
    count({ port_id, workspace_id }, { requests, received_bytes, sent_bytes }) {
      if (requests + received_bytes + sent_bytes > 0) {
        add({ port_id, workspace_id, requests, received_bytes, sent_bytes, last_request_at: clock.now() })
      }
    },
    async flush() {
      const all = [...uses.values()]
      uses = new Map()
      for (let at = 0; at < all.length; at += WRITTEN_MAX) {
        try {
          await addUse(db, all.slice(at, at + WRITTEN_MAX), clock.now())
        } catch (error) {
          for (const use of all.slice(at)) add(use)
          throw error
        }
      }
    },
  }
}

export function startUseFlushing(ledger: UseLedger, log: Logger, signal: AbortSignal): void {
  const failed = (error: unknown) => log.warn({ err: error }, 'the use of ports could not be written')
  tickEvery(
    FLUSH_MS,
    oneAtATime(() => ledger.flush()),
    failed,
    signal,
  )
}
