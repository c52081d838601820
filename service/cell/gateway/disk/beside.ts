import { Failure } from '../../../lib/fail.ts'
import type { AgentLink, FileReads } from '../../links/agent.ts'
import { AgentTrouble } from '../../links/agent-trouble.ts'
import { HostFailure } from '../../links/hostd.ts'

/** Most searches end before it, and cost no reader; what a longer one has done until then is done again. */
const MACHINE_ALONE_MS = 150

/**
 * Reads of a workspace that runs. A search that takes its machine long goes to the reader of the machine's disk, which needs a third of the
 * time (decision 272). What that one cannot do is the machine's.
 * @param gone of the machine: nothing of it is answered after that.
 */
export function readsOfRunning(agent: AgentLink, disk: Pick<FileReads, 'searchFiles'>, gone: AbortSignal): FileReads {
  const { openFile, statFile, listFiles } = agent
  return {
    openFile,
    statFile,
    listFiles,
    async searchFiles(asked, bounds) {
      const found = await agent.beginSearch(asked, MACHINE_ALONE_MS, bounds)
      if (found !== null) return found
      const signal = AbortSignal.any([bounds.signal, gone])
      try {
        return await disk.searchFiles(asked, { ...bounds, signal })
      } catch (error) {
        if (gone.aborted && !bounds.signal.aborted) throw new AgentTrouble('cut', 'The machine has gone')
        if (bounds.signal.aborted || !isUnread(error)) throw error
        return agent.searchFiles(asked, bounds)
      }
    },
  }
}

/** The disk says nothing: too many are read, it has gone, or a path leads off it since the machine looked. */
function isUnread(error: unknown): boolean {
  return error instanceof Failure || error instanceof HostFailure || error instanceof AgentTrouble
}
