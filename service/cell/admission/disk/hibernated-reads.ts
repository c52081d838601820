import { posix } from 'node:path'
import { Failure } from '../../../lib/fail.ts'
import type { FileReads } from '../../host/agent-link.ts'

const UNREAD: ReadonlySet<string | undefined> = new Set(['offline_unavailable', 'offline_budget', 'offline_changed'])
/** Paths that exist only in memory, and `/` above them (decision 13). */
const IN_MEMORY = /^\/((tmp|dev|proc|sys)(\/|$)|$)/

/** Wakes the machine only where the disk cannot answer. @param headers of the answers; they name the source */
export function hibernatedReads(disk: FileReads, headers: Record<string, string>, machine: () => Promise<FileReads>): FileReads {
  const read = async <T>(path: string, ask: (files: FileReads) => Promise<T>): Promise<T> => {
    try {
      if (!IN_MEMORY.test(posix.normalize(path))) return await ask(disk)
    } catch (error) {
      // The machine is asked, because the path may be in memory, behind a link or a mount of the guest.
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
