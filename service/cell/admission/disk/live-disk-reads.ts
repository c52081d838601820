import { Failure } from '../../../lib/fail.ts'
import type { AgentLink, LiveDiskReads } from '../../host/agent-link.ts'
import type { CallBounds } from '../../host/agent-answer.ts'
import type { ChangesFilter, ChangesFound } from '../../host/agent-asked.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { HostFailure } from '../../host/hostd.ts'

/** Most searches end on the machine in this time, without the cost of a reader. A longer search starts again on the disk. */
const MACHINE_ALONE_MS = 150
/** For fewer changes in a page, the machine reads the facts itself. */
const ON_DISK_FROM = 200

/**
 * The disk reader answers searches and changes that are slow in the machine (decisions 272 and 273).
 * @param gone of the machine: later answers of the reader are not used
 */
export function withDiskReader(agent: AgentLink, disk: LiveDiskReads, gone: AbortSignal): AgentLink {
  /** @returns null if too many disks are read, the disk is gone, or a path now leads off the disk */
  const beside = async <T>(bounds: CallBounds, read: (bounds: CallBounds) => Promise<T>): Promise<T | null> => {
    try {
      return await read({ ...bounds, signal: AbortSignal.any([bounds.signal, gone]) })
    } catch (error) {
      if (gone.aborted && !bounds.signal.aborted) throw new AgentFailure('cut', 'The machine has gone')
      const unread = error instanceof Failure || error instanceof HostFailure || error instanceof AgentFailure
      if (bounds.signal.aborted || !unread) throw error
      return null
    }
  }
  return {
    ...agent,
    async searchFiles(asked, bounds) {
      const found = await agent.beginSearch(asked, MACHINE_ALONE_MS, bounds)
      return found ?? (await beside(bounds, (within) => disk.searchFiles(asked, within))) ?? agent.searchFiles(asked, bounds)
    },
    async listChanges(filter, bounds) {
      if (!mayBeOnDisk(filter)) return agent.listChanges(filter, bounds)
      const page = await agent.listChanges({ ...filter, on_disk_from: ON_DISK_FROM }, bounds)
      const left = page.data.filter(({ on_disk }) => on_disk)
      if (left.length === 0) return page
      const paths = left.map(({ path }) => path)
      const filled = await beside(bounds, async (within) => {
        const facts = await disk.readFacts(paths, within)
        if (facts.length !== paths.length) throw new AgentFailure('nonsense', 'The reader knows of other paths than it was asked for')
        return fill(page, facts)
      })
      return filled ?? agent.listChanges(filter, bounds)
    },
  }
}

/** Otherwise the machine answers alone: digests take longer than any stat, and summaries need none. */
function mayBeOnDisk({ limit, hash, summary }: ChangesFilter): boolean {
  return limit >= ON_DISK_FROM && !hash && !summary
}

/** A path that has disappeared is left out. */
function fill(page: ChangesFound, facts: Awaited<ReturnType<LiveDiskReads['readFacts']>>): ChangesFound {
  const left = facts.values()
  const data = page.data.flatMap(({ on_disk, ...change }) => {
    if (!on_disk) return [change]
    const { value } = left.next()
    return value === null || value === undefined ? [] : [{ ...change, ...value }]
  })
  return { ...page, data }
}
