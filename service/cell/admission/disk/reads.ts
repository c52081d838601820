import type { IncomingMessage } from 'node:http'
import { AGENT_PROTOCOLS } from '../../../../contract/internal/agent.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail, Failure } from '../../../lib/fail.ts'
import { openLink, type OpenLink } from '../../host/agent.ts'
import type { AgentLink, LiveDiskReads, FileReads } from '../../host/agent-link.ts'
import type { AgentDeadlines } from '../../host/agent-http.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { HostFailure, type MachineHost } from '../../host/hostd.ts'
import type { MachineTable, WorkspaceEntry } from '../../machines/table.ts'
import { createDiskBudget, type DiskBudget } from './budget.ts'
import { isUnchanged, type DiskSource } from './source.ts'

export type DiskHost = Pick<MachineHost, 'readDisk'>

export interface DiskReads {
  /** Reads the disk of a suspended or hibernated workspace. */
  of(entry: WorkspaceEntry, source: DiskSource): FileReads
  /** Reads the disk of a running workspace, next to its machine. Errors are not explained, because the caller asks the machine instead. */
  beside(entry: WorkspaceEntry, machine_epoch: number): LiveDiskReads
  close(): void
}

export interface DiskReadsDeps {
  host: DiskHost
  table: MachineTable
  clock: Clock
  deadlines?: AgentDeadlines
}

/** More links than the host has readers: the readers of older links have been stopped. */
const LINKS_MAX = 64

interface DiskReaders {
  host: DiskHost
  table: MachineTable
  clock: Clock
  deadlines: AgentDeadlines | undefined
  /** Time and bytes that a workspace's reads may use while it has no machine. */
  budget: DiskBudget
  /** The same for the reads next to a running machine. */
  live_budget: DiskBudget
  /** The link of each workspace, oldest first. */
  links: Map<string, ReaderLink>
}

type ReaderLink = OpenLink & { address: string }

export function createDiskReads({ host, table, clock, deadlines }: DiskReadsDeps): DiskReads {
  const budget = createDiskBudget(clock)
  const live_budget = createDiskBudget(clock)
  const readers: DiskReaders = { host, table, clock, deadlines, budget, live_budget, links: new Map() }
  return {
    of: (entry, source) => readsOf(readers, entry, source),
    beside: (entry, machine_epoch) => readsBeside(readers, entry, machine_epoch),
    close: () => readers.links.forEach(({ close }) => close()),
  }
}

function readsOf(readers: DiskReaders, entry: WorkspaceEntry, source: DiskSource): FileReads {
  return {
    statFile: (...asked) => askWhole(readers, entry, source, (link) => link.statFile(...asked)),
    listFiles: (...asked) => askWhole(readers, entry, source, (link) => link.listFiles(...asked)),
    searchFiles: (...asked) => askWhole(readers, entry, source, (link) => link.searchFiles(...asked)),
    async openFile(...asked) {
      const file = await ask(readers, entry, source, (link) => link.openFile(...asked))
      if (!isUnchanged(entry, readers.table.get(entry.id))) {
        file.destroy()
        throw changed()
      }
      charge(readers, entry, file)
      return file
    },
  }
}

function readsBeside(readers: DiskReaders, { id, organization_id: tenant }: WorkspaceEntry, machine_epoch: number): LiveDiskReads {
  const { clock, live_budget } = readers
  const read = async <T>(ask: (link: LiveDiskReads) => Promise<T>): Promise<T> => {
    live_budget.admit(id)
    const began_ms = clock.monotonic_ms()
    try {
      return await attempt(readers, { workspace_id: id, tenant, machine_epoch, checkpoint_id: null, layers: [] }, ask)
    } finally {
      live_budget.spend(id, { ms: clock.monotonic_ms() - began_ms })
    }
  }
  return {
    searchFiles: (...asked) => read((link) => link.searchFiles(...asked)),
    readFacts: (...asked) => read((link) => link.readFacts(...asked)),
  }
}

type Read<T> = (link: FileReads) => Promise<T>

/** Refuses an answer if the workspace changed during the read, because the answer may mix old and new state. */
async function askWhole<T>(readers: DiskReaders, entry: WorkspaceEntry, source: DiskSource, read: Read<T>): Promise<T> {
  const answer = await ask(readers, entry, source, read)
  if (isUnchanged(entry, readers.table.get(entry.id))) return answer
  throw changed()
}

async function ask<T>(readers: DiskReaders, entry: WorkspaceEntry, source: DiskSource, read: Read<T>): Promise<T> {
  const { table, clock, budget } = readers
  budget.admit(entry.id)
  const began_ms = clock.monotonic_ms()
  try {
    return await attempt(readers, source, read)
  } catch (error) {
    throw await refusalOf(table, entry, error)
  } finally {
    budget.spend(entry.id, { ms: clock.monotonic_ms() - began_ms })
  }
}

async function attempt<T>(readers: DiskReaders, source: DiskSource, read: (link: AgentLink) => Promise<T>): Promise<T> {
  const first = await linkOf(readers, source, undefined)
  try {
    return await read(first.link)
  } catch (error) {
    if (!(error instanceof AgentFailure) || !REPEATED.has(error.kind)) throw error
    return read((await linkOf(readers, source, first.address)).link)
  }
}

async function linkOf(
  { host, deadlines, links }: DiskReaders,
  source: DiskSource,
  doubted_address: string | undefined,
): Promise<ReaderLink> {
  const access = await host.readDisk(doubted_address === undefined ? source : { ...source, doubted_address })
  const known = links.get(source.workspace_id)
  if (known?.address === access.address) return known
  const opened = { ...openLink({ ...access, agent_protocol: AGENT_PROTOCOLS.current }, deadlines), address: access.address }
  known?.close()
  links.delete(source.workspace_id)
  links.set(source.workspace_id, opened)
  const [oldest] = links.keys()
  if (links.size > LINKS_MAX && oldest !== undefined) {
    links.get(oldest)?.close()
    links.delete(oldest)
  }
  return opened
}

function charge({ clock, budget }: DiskReaders, { id }: WorkspaceEntry, file: IncomingMessage): void {
  budget.spend(id, { bytes: Number(file.headers['content-length'] ?? 0) || 0 })
  const began_ms = clock.monotonic_ms()
  file.once('close', () => budget.spend(id, { ms: clock.monotonic_ms() - began_ms }))
}

/** A reader may exit during a call, when idle or killed. The call is repeated once. */
const REPEATED: ReadonlySet<string> = new Set(['unreachable', 'cut'])
const UNREAD: ReadonlySet<string> = new Set([...REPEATED, 'silent'])

/** Explains a failed read to its caller. A change of the workspace is the better reason, so it is checked first. */
async function refusalOf(table: MachineTable, entry: WorkspaceEntry, error: unknown): Promise<unknown> {
  const in_memory = isInMemory(error)
  const unread = in_memory || error instanceof HostFailure || (error instanceof AgentFailure && UNREAD.has(error.kind))
  if (!unread) return error
  const now = await table.fresh(entry.id).catch(() => table.get(entry.id))
  if (now === undefined || now.deleted_at !== null) return fail('unauthenticated', 'revoked_workspace', 'The workspace was deleted')
  if (!isUnchanged(entry, now)) return changed(error)
  if (error instanceof HostFailure && error.code === 'no_capacity') {
    return fail('workspace_not_running', 'offline_budget', 'The host reads too many suspended workspaces at the moment', {
      retry_after_seconds: 5,
      cause: error,
    })
  }
  const message = in_memory
    ? 'The path lies in the memory of the suspended workspace, not on its disk: resume it to read there'
    : 'The disk of the suspended workspace cannot be read at the moment'
  return fail('workspace_not_running', 'offline_unavailable', message, { cause: error })
}

/** Whether the path leads off the disk. Only a reader can follow links, so only a reader can report this (decision 13). */
function isInMemory(error: unknown): boolean {
  return error instanceof Failure && error.code === 'conflict' && error.options.details?.['in_memory'] === true
}

function changed(cause?: unknown): Failure {
  const message = 'The workspace stopped sleeping while its disk was read: ask again'
  return fail('dependency_unavailable', 'offline_changed', message, { retry_after_seconds: 1, cause })
}
