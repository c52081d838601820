import { spawnSync } from 'node:child_process'

/** Flag of a command that is started again with the lock held. */
export const LOCKED = '--under-lock'
const TAKEN = 75

/** @returns the exit code; undefined: another process has the lock. */
export function againUnderLock(lock, program, argv) {
  const again = [process.execPath, program, ...argv, LOCKED]
  const { status, error } = spawnSync('flock', ['--nonblock', '--conflict-exit-code', `${TAKEN}`, lock, ...again], { stdio: 'inherit' })
  if (error) throw error
  return status === TAKEN ? undefined : (status ?? 1)
}
