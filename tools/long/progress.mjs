// An interrupted part continues with the test files that have not passed.
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const PROGRESS_VARIABLE = 'BERTH_TEST_PROGRESS'

/** The first line holds the commit and the seed. */
export function progressFile(cache_dir, part) {
  return join(cache_dir, 'long-run', part)
}

/** undefined: none, or the commit has changed files. */
export function seedOfProgress(file, commit) {
  const [head = ''] = linesOf(file)
  const [of, seed] = head.split(' ')
  return of === commit && !commit.endsWith('+') ? Number(seed) : undefined
}

export function beginProgress(file, commit, seed) {
  if (seedOfProgress(file, commit) === seed) return
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${commit} ${seed}\n`)
}

export function endProgress(file) {
  rmSync(file, { force: true })
}

export function passedFiles(file) {
  return linesOf(file).slice(1)
}

export function notePassed(file, test_file) {
  appendFileSync(file, `${test_file}\n`)
}

function linesOf(file) {
  try {
    return readFileSync(file, 'utf8').split('\n').slice(0, -1) // drops a line that a kill cut short
  } catch (error) {
    if (error.code === 'ENOENT') return []
    throw error
  }
}
