import { writeFile } from 'node:fs/promises'
import path from 'node:path'

/** What thaws, by the name of the file: of cgroup v2, and of v1. */
const THAWS: Readonly<Record<string, string>> = { 'cgroup.freeze': '0', 'freezer.state': 'THAWED' }

/** Thaws a machine without its host (DESIGN §5a, "Connections"). What is not frozen runs on. Rejects where the file does not let us. */
export async function thawByFile(file: string): Promise<void> {
  const word = THAWS[path.basename(file)]
  if (word === undefined) throw new Error('The host named a freezer that is not one')
  // Never made: a file that is not there is a machine that is not there.
  await writeFile(file, word, { flag: 'r+' })
}
