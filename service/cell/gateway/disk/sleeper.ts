import { posix } from 'node:path'
import { Failure } from '../../../lib/fail.ts'
import type { FileReads } from '../../links/agent.ts'

const UNREAD: ReadonlySet<string | undefined> = new Set(['offline_unavailable', 'offline_budget', 'offline_changed'])
/** What only the machine has (decision 13), and what lies above it: known by the name already, without a reader of the disk. */
const IN_MEMORY = /^\/((tmp|dev|proc|sys)(\/|$)|$)/

/**
 * Reads of a hibernated workspace, which runs by its state: from its disk, without waking it, where the disk can tell the same as the
 * machine would; by the machine where not.
 * @param headers of the answers, which say who served them.
 */
export function readsOfSleeper(disk: FileReads, headers: Record<string, string>, machine: () => Promise<FileReads>): FileReads {
  const read = async <T>(path: string, ask: (files: FileReads) => Promise<T>): Promise<T> => {
    try {
      if (!IN_MEMORY.test(posix.normalize(path))) return await ask(disk)
    } catch (error) {
      // Not on the disk may be in memory: a link leads there, or the guest has mounted something.
      if (!(error instanceof Failure) || !(UNREAD.has(error.reason ?? undefined) || error.code === 'not_found')) throw error
    }
    const files = await machine()
    delete headers['x-served-from']
    return ask(files)
  }
  return {
    statFile: (path, ...rest) => read(path, (files) => files.statFile(path, ...rest)),
    listFiles: (path, ...rest) => read(path, (files) => files.listFiles(path, ...rest)),
    searchFiles: (wanted, ...rest) => read(wanted.path, (files) => files.searchFiles(wanted, ...rest)),
    openFile: (path, ...rest) => read(path, (files) => files.openFile(path, ...rest)),
  }
}
