// Records which test files have passed, so that an interrupted part continues with the others.
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const PROGRESS_VARIABLE = 'BERTH_TEST_PROGRESS'

/** The file's first line contains the commit and the seed. */
export function progressFile(cache_dir, part) {
  return join(cache_dir, 'long-run', part)
}

/** undefined: there is no progress, or the commit has changed. */
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
    return readFileSync(file, 'utf8').split('\n').slice(0, -1) // omits a line that was partly written when the process was killed
  } catch (error) {
    if (error.code === 'ENOENT') return []
    throw error
  }
}
