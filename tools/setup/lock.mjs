import { spawnSync } from 'node:child_process'

/** The command holds the lock already. */
export const LOCKED = '--under-lock'
const TAKEN = 75

/** undefined: another process holds the lock. */
export function againUnderLock(lock, program, argv) {
  const again = [process.execPath, program, ...argv, LOCKED]
  const { status, error } = spawnSync('flock', ['--nonblock', '--conflict-exit-code', `${TAKEN}`, lock, ...again], { stdio: 'inherit' })
  if (error) throw error
  return status === TAKEN ? undefined : (status ?? 1)
}
