// The supervisor's lock of a data directory, for commands that nothing may start beside.
import { spawnSync } from 'node:child_process'

/** Says to a command that it holds the lock already. */
export const LOCKED = '--under-lock'
const TAKEN = 75

/** Runs the command `[program, ...argv]` again under the lock; returns its exit code, or undefined when somebody else has the lock. */
export function againUnderLock(lock, program, argv) {
  const again = [process.execPath, program, ...argv, LOCKED]
  const { status, error } = spawnSync('flock', ['--nonblock', '--conflict-exit-code', `${TAKEN}`, lock, ...again], { stdio: 'inherit' })
  if (error) throw error
  return status === TAKEN ? undefined : (status ?? 1)
}
