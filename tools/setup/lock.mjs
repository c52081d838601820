// The supervisor's lock of a data directory excludes a start.
import { spawnSync } from 'node:child_process'

/** Tells a command that it holds the lock already. */
export const LOCKED = '--under-lock'
const TAKEN = 75

/** Returns the exit code of the command, or undefined if another process holds the lock. */
export function againUnderLock(lock, program, argv) {
  const again = [process.execPath, program, ...argv, LOCKED]
  const { status, error } = spawnSync('flock', ['--nonblock', '--conflict-exit-code', `${TAKEN}`, lock, ...again], { stdio: 'inherit' })
  if (error) throw error
  return status === TAKEN ? undefined : (status ?? 1)
}
