import { availableParallelism } from 'node:os'
import { hash, type Options, verify } from '@node-rs/argon2'
import { LIMITS } from '../../../contract/limits.ts'
import { fail } from '../../lib/fail.ts'

/** Checks and hashes passwords off the event loop, a bounded number at once: each takes a core and 46 MiB for some 50 ms. */
export interface Passwords {
  hash(password: string): Promise<string>
  /** @param kept null: there is no such account, or it has no password. It takes as long, and is never right. */
  matches(kept: string | null, password: string): Promise<boolean>
}

/** Of argon2id, which the module takes where nothing else is said: OWASP's recommendation with one pass. */
export const ARGON2: Options = {
  memoryCost: 47_104,
  timeCost: 1,
  parallelism: 1,
  outputLen: 32,
}
const RETRY_SECONDS = 2

/** All but one of the cores: requests without a password are served meanwhile. */
export async function openPasswords(at_once = Math.max(1, Math.min(4, availableParallelism() - 1))): Promise<Passwords> {
  const turn = createLine(at_once, LIMITS.sign_in.hashes_waiting_max)
  const nobodys = await hash('nobody has this password', ARGON2)
  return {
    hash: (password) => turn(() => hash(composed(password), ARGON2)),
    matches: (kept, password) =>
      turn(async () => {
        const is_right = await verify(kept ?? nobodys, composed(password), ARGON2)
        return is_right && kept !== null
      }),
  }
}

/** The same letters typed on another computer may come in other code points. */
function composed(password: string): string {
  return password.normalize('NFC')
}

/** Work in the order in which it came, so much at once. */
function createLine(at_once: number, waiting_max: number): <Result>(work: () => Promise<Result>) => Promise<Result> {
  const waiting: (() => void)[] = []
  let running = 0
  return async (work) => {
    if (running >= at_once) {
      if (waiting.length >= waiting_max) {
        throw fail('dependency_unavailable', null, 'Too many passwords are being checked', { retry_after_seconds: RETRY_SECONDS })
      }
      await new Promise<void>((resolve) => waiting.push(resolve))
    } else running += 1
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running -= 1
      else next() // its place is handed over
    }
  }
}
