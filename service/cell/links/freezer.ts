import { closeSync, openSync, writeSync } from 'node:fs'
import path from 'node:path'

/** What thaws, by the name of the file: of cgroup v2, and of v1. */
const THAWS: Readonly<Record<string, string>> = { 'cgroup.freeze': '0', 'freezer.state': 'THAWED' }

/**
 * Thaws a machine without its host. What is not frozen runs on. Throws where the file does not let us. The
 * kernel takes a tenth of a millisecond for it, which is less than three trips to Node's threads and back.
 */
export function thawByFile(file: string): void {
  const word = THAWS[path.basename(file)]
  if (word === undefined) throw new Error('The host named a freezer that is not one')
  // Never made: a file that is not there is a machine that is not there.
  const descriptor = openSync(file, 'r+')
  try {
    writeSync(descriptor, word)
  } finally {
    closeSync(descriptor)
  }
}
