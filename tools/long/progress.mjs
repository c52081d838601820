// What of a part of the suite has passed already: a part that was ended goes on with the other files.
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Names the file for tests/support/run.ts. */
export const PROGRESS_VARIABLE = 'BERTH_TEST_PROGRESS'

/** The file of a part. Its first line says of which commit and seed it is. */
export function progressFile(cache_dir, part) {
  return join(cache_dir, 'long-run', part)
}

/** The seed of a part that was ended at a commit; undefined where none was, or at a commit with changed files. */
export function seedOfProgress(file, commit) {
  const [head = ''] = linesOf(file)
  const [of, seed] = head.split(' ')
  return of === commit && !commit.endsWith('+') ? Number(seed) : undefined
}

/** Starts the file over, unless it is of this commit and seed. */
export function beginProgress(file, commit, seed) {
  if (seedOfProgress(file, commit) === seed) return
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${commit} ${seed}\n`)
}

export function endProgress(file) {
  rmSync(file, { force: true })
}

/** The test files that have passed. */
export function passedFiles(file) {
  return linesOf(file).slice(1)
}

export function notePassed(file, test_file) {
  appendFileSync(file, `${test_file}\n`)
}

function linesOf(file) {
  try {
    return readFileSync(file, 'utf8').split('\n').slice(0, -1) // a line that a kill cut short is none
  } catch (error) {
    if (error.code === 'ENOENT') return []
    throw error
  }
}
