import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { OperationKind } from '../../../contract/states/operation.ts'
import type { PortRefusal } from '../../../contract/port-refusals.ts'
import type { AgentLinks } from '../host/agent.ts'
import type { LiveTable } from '../machines/live-table.ts'
import type { Waking } from '../machines/parking.ts'
import type { PortMetrics } from './port-metrics.ts'
import { openWorkspaceChanges } from './changes.ts'
import { createConversation, type Conversation } from './conversation.ts'
import { openCredentialCache } from './credentials.ts'
import type { Lease } from './leases.ts'
import { createListenerLookup } from './listener-lookup.ts'
import { resumeForVisitor } from './resume-store.ts'
import { listenForProxies } from './socket.ts'
import { readCredentials, readRemaining } from './store.ts'
import { createUseLedger, startUseFlushing } from './use.ts'
import { createVisits } from './visits.ts'

export interface PortsDeps {
  cell_id: string
  db: Db
  listener: Listener
  clock: Clock
  ids: Ids
  table: LiveTable
  waking: Waking
  agents: Pick<AgentLinks, 'of'>
  log: Logger
  metrics?: PortMetrics
}

export interface Ports {
  leases(): Lease[]
  flush(): Promise<void>
  /** Resolves when no proxy serves any credential or port whose removal was announced before the call. */
  settled(): Promise<void>
  close(): Promise<void>
}

/** Serves the proxies of ports (Cell, "Port access"). */
export async function startPorts(deps: PortsDeps, socket: string): Promise<Ports> {
  const { db, listener, clock, log, table } = deps
  const closing = new AbortController()
  const book = openCredentialCache((digests) => readCredentials(db, digests), listener)
  const changes = openWorkspaceChanges(listener)
  const use = createUseLedger(deps)
  startUseFlushing(use, log, closing.signal)
  const conversations = new Set<Conversation>()
  let last_lease = 0
  const conversation = {
    ...deps,
    book,
    changes,
    use,
    visits: createVisits(deps),
    look: createListenerLookup(deps),
    databaseLostMs: table.databaseLostMs,
    nextLease: () => (last_lease += 1),
    resume: (visit: { workspace_id: string; port: number }) => resumeForVisitor(deps, visit, clock.now()),
  }
  const cutting = new Set<Promise<void>>()
  const cut = (work: Promise<void>, failed: (error: unknown) => void) => {
    const done = work.catch(failed).finally(() => cutting.delete(done))
    cutting.add(done)
  }
  const leases = () => [...conversations].flatMap((each) => each.leases.all())
  const unsubscribe = listener.on('berth_port', (port_id) => {
    cut(cutWhatIsGone(conversations, port_id, closing.signal, deps), (error) => log.error({ err: error }, 'leases could not be checked'))
  })
  const unsubscribeHolds = listener.on('berth_workspace', (workspace_id) => {
    cut(cutWhatIsEnding(conversations, workspace_id, table), (error) => log.warn({ err: error }, 'leases could not be checked'))
  })
  const unconfirmed = createUnconfirmed(clock)
  const server = await listenForProxies(socket, log, (say, end) => {
    const begun = createConversation(conversation, say, end)
    conversations.add(begun)
    return {
      hear(frame) {
        if ('hello' in frame) noteProxies(socket, log)
        return begun.hear(frame)
      },
      close() {
        conversations.delete(begun)
        if (begun.leases.size > 0) unconfirmed.begin()
        begun.close()
      },
    }
  })
  if (existsSync(noteOf(socket))) unconfirmed.begin()
  return {
    leases,
    flush: () => use.flush(),
    async settled() {
      await Promise.all(cutting)
      const settled = await Promise.all([...conversations].map((each) => each.settle()))
      if (settled.includes(false)) throw new Error('A proxy of ports went away while it ended what was cut')
      if (unconfirmed.has() && settled.length === 0) throw new Error('A proxy of ports is away and may pass on what it was let in for')
    },
    async close() {
      closing.abort()
      await server.close()
      unsubscribe()
      unsubscribeHolds()
      book.close()
      changes.close()
      await use.flush().catch(() => undefined) // without a database the counts of the last seconds are lost
    },
  }
}

/**
 * After a lost connection proxies keep streams open until the leases are granted again or time out.
 * A proxy that reconnects asks for each stream first, and confirms only after the answers.
 */
function createUnconfirmed(clock: Clock) {
  let until_ms = 0
  return {
    begin: () => void (until_ms = clock.monotonic_ms() + LIMITS.port.unconfirmed_seconds * 1000),
    has: () => clock.monotonic_ms() < until_ms,
  }
}

/** Records that proxies have connected here: they may still serve leases of an earlier process. */
const noteOf = (socket: string) => `${socket}.asked`

function noteProxies(socket: string, log: Logger): void {
  // Without the file, a revocation just after a start might be confirmed too early.
  writeFile(noteOf(socket), '').catch((error: unknown) => log.warn({ err: error }, 'the listener of port proxies could not be recorded'))
}

const ENDING: ReadonlySet<OperationKind | undefined> = new Set<OperationKind>(['suspend', 'restore', 'reset', 'adopt', 'move', 'delete'])

/** Cuts leases before the machine ends, because later requests would be lost. Without the database the machine's end cuts them. */
async function cutWhatIsEnding(
  conversations: ReadonlySet<Conversation>,
  changed: string | null,
  table: Pick<LiveTable, 'fresh'>,
): Promise<void> {
  const let_in = [...conversations].flatMap(({ leases }) => leases.all().map(({ found }) => found.workspace_id))
  for (const workspace_id of new Set(let_in)) {
    if (changed !== null && changed !== workspace_id) continue
    const entry = await table.fresh(workspace_id)
    if (entry === undefined || entry.hold === null || !ENDING.has(entry.hold.operation_kind)) continue
    for (const { leases } of conversations) {
      for (const lease of leases.all()) if (lease.found.workspace_id === workspace_id) leases.cut(lease, 'machine_moved')
    }
  }
}

const RETRY_MS = 500

async function cutWhatIsGone(
  conversations: ReadonlySet<Conversation>,
  port_id: string | null,
  signal: AbortSignal,
  { db, log }: Pick<PortsDeps, 'db' | 'log'>,
): Promise<void> {
  const of_port = () =>
    [...conversations].flatMap(({ leases }) =>
      leases
        .all()
        .filter(({ found }) => port_id === null || found.port_id === port_id)
        .map((lease) => ({ leases, lease })),
    )
  while (!signal.aborted) {
    const those = of_port()
    if (those.length === 0) return
    try {
      const credential_ids = [...new Set(those.map(({ lease }) => lease.found.id))]
      const port_ids = [...new Set(those.map(({ lease }) => lease.found.port_id))]
      const { credentials, ports } = await readRemaining(db, credential_ids, port_ids)
      for (const { leases, lease } of those) {
        if (credentials.has(lease.found.id)) continue
        const reason: PortRefusal = ports.has(lease.found.port_id) ? 'credential_revoked' : 'port_closed'
        leases.cut(lease, reason)
      }
      return
    } catch (error) {
      log.warn({ err: error }, 'credentials of ports could not be read')
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref())
    }
  }
}
