import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { hash, type Options, verify } from '@node-rs/argon2'
import { LIMITS } from '../../../../contract/limits.ts'
import { sourceOf } from '../../../http/source.ts'
import { fail } from '../../../lib/fail.ts'
import { createFairSemaphore } from '../../../lib/bounded.ts'

/** Checks and hashes passwords outside the event loop. Concurrency is bounded, because each hash uses a core and 46 MiB for some 50 ms. */
export interface Passwords {
  hash(password: string, asker: PasswordClient): Promise<string>
  /** @param kept null: no such account or no password. The check then fails, but takes as long as any other. */
  matches(kept: string | null, password: string, asker: PasswordClient): Promise<boolean>
}

/** Requests are queued fairly per client. Sessions have their own queue, so guessers without a session never delay signed-in people. */
export type PasswordClient = { address: string } | { session_id: string }

/** OWASP's recommendation of argon2id with one pass; argon2id is the module's default. */
export const ARGON2 = {
  memoryCost: 47_104,
  timeCost: 1,
  parallelism: 1,
  outputLen: 32,
} satisfies Options
const SALT_BYTES = 16
const RETRY_SECONDS = 2

/** Leaves one core free for requests without a password. */
export function openPasswords(at_once = Math.max(1, Math.min(4, availableParallelism() - 1))): Passwords {
  const { hashes_waiting_max: waiting, hashes_waiting_per_source_max: waiting_per_name } = LIMITS.sign_in
  const anonymous_queue = createFairSemaphore({ at_once, waiting_per_name, waiting }, tooMany)
  const sessions = createFairSemaphore({ at_once: 1, waiting_per_name, waiting }, tooMany)
  const turn = <Result>(asker: PasswordClient, work: () => Promise<Result>): Promise<Result> =>
    'session_id' in asker ? sessions.run(asker.session_id, work) : anonymous_queue.run(sourceOf(asker.address), work)
  const nobodys = unmatchableHash()
  return {
    hash: (password, asker) => turn(asker, () => hash(composed(password), ARGON2)),
    matches: (kept, password, asker) =>
      turn(asker, async () => {
        const is_right = await verify(kept ?? nobodys, composed(password), ARGON2)
        return is_right && kept !== null
      }),
  }
}

/** Makes a hash that no password can match; checking it takes as long as a stored hash. */
function unmatchableHash(): string {
  const { memoryCost, timeCost, parallelism, outputLen } = ARGON2
  const [salt, digest] = [SALT_BYTES, outputLen].map((bytes) => randomBytes(bytes).toString('base64').replaceAll('=', ''))
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${salt}$${digest}`
}

/** Normalizes code points: another computer may type the same letters differently. */
function composed(password: string): string {
  return password.normalize('NFC')
}

function tooMany() {
  return fail('dependency_unavailable', null, 'Too many passwords are being checked', { retry_after_seconds: RETRY_SECONDS })
}
