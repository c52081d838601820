import { closeSync, openSync, writeSync } from 'node:fs'
import path from 'node:path'

const THAWS: Readonly<Record<string, string>> = { 'cgroup.freeze': '0', 'freezer.state': 'THAWED' }

/**
 * Thaws a machine without its host; a running machine is unaffected. Throws if the file cannot be written.
 * Synchronous: the kernel takes 0.1 ms, less than three round trips to Node's threads.
 */
export function thawByFile(file: string): void {
  const word = THAWS[path.basename(file)]
  if (word === undefined) throw new Error('The host named a freezer that is not one')
  // Opens the file without creating it: if it is missing, there is no machine.
  const descriptor = openSync(file, 'r+')
  try {
    writeSync(descriptor, word)
  } finally {
    closeSync(descriptor)
  }
}
