import { isIP } from 'node:net'
import type { Logger } from 'pino'
import { serviceOrigin } from '../../core/changes/audit.ts'
import { mutate } from '../../core/changes/mutate.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import { createSemaphore } from '../../lib/bounded.ts'
import type { AskFrame } from '../../../contract/internal/ports.ts'
import type { FoundCredential } from './store.ts'

export interface Visits {
  /** Never waits: a visitor is served even if the record cannot be written. */
  record(found: FoundCredential, asked: AskFrame): void
}

const AGAIN_MS = 60_000
const KNOWN_MAX = 10_000
const AT_ONCE_MAX = 2
const WAITING_MAX = 1000

export function createVisits({ db, clock, ids, log }: { db: Db; clock: Clock; ids: Ids; log: Logger }): Visits {
  const recorded = new Map<string, number>() // oldest first
  const inTurn = createSemaphore(AT_ONCE_MAX)
  let waiting = 0
  const write = async (found: FoundCredential, { client, websocket }: AskFrame) => {
    const { id: credential_id, kind, port_id, port, workspace_id, organization_id, project_id } = found
    const by = { ...serviceOrigin('cell', { ids, now: clock.now() }), source_address: isIP(client) === 0 ? null : client }
    const details = { workspace_id, port, credential: kind, credential_id, websocket }
    await mutate(db, by, 'ports.visit', async () => undefined, { kind: 'port', id: port_id, organization_id, project_id, details })
  }
  return {
    record(found, asked) {
      const name = `${found.id} ${asked.client}`
      const now_ms = clock.monotonic_ms()
      if (waiting >= WAITING_MAX || now_ms - (recorded.get(name) ?? Number.NEGATIVE_INFINITY) < AGAIN_MS) return
      recorded.delete(name)
      recorded.set(name, now_ms)
      const [oldest] = recorded.keys()
      if (recorded.size > KNOWN_MAX && oldest !== undefined) recorded.delete(oldest)
      waiting += 1
      inTurn(() => write(found, asked))
        .catch((error: unknown) => log.warn({ err: error }, 'a visit of a port was not recorded'))
        .finally(() => (waiting -= 1))
    },
  }
}
