import { importJWK, type CryptoKey, type JWK } from 'jose'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import type { Clock } from '../../lib/clock.ts'
import { readSigningKeys } from './store.ts'

export interface VerificationKeys {
  /** @returns undefined if a table that was read at most RELOAD_MS ago has no such key */
  find(kid: string): Promise<CryptoKey | undefined>
  close(): void
}

/** Bounds table reads under a flood of unknown kids. */
const RELOAD_MS = 30_000
/** The table is read again after this time, because a deleted or long retired key must stop verifying. */
const STALE_MS = 60_000
const RETIRED_MS = (LIMITS.credential.tool_token_seconds + LIMITS.credential.signing_key_overlap_seconds) * 1000

export async function openVerificationKeys(db: Db, listener: Pick<Listener, 'on'>, clock: Clock): Promise<VerificationKeys> {
  const read = () => readKeys(db, new Date(clock.now().getTime() - RETIRED_MS))
  let keys = await read()
  let asked_ms = Number.NEGATIVE_INFINITY
  let read_ms = clock.monotonic_ms()
  let reading: Promise<void> | null = null
  const reload = () => {
    if (reading === null && clock.monotonic_ms() - asked_ms >= RELOAD_MS) {
      asked_ms = clock.monotonic_ms()
      reading = read()
        .then((found) => {
          keys = found
          read_ms = clock.monotonic_ms()
        })
        .finally(() => void (reading = null))
    }
    return reading
  }
  // The next token reads the table, because tokens of a new key must verify at once.
  const unsubscribe = listener.on('berth_signing_key', () => {
    asked_ms = Number.NEGATIVE_INFINITY
    read_ms = Number.NEGATIVE_INFINITY
  })
  return {
    async find(kid) {
      const known = keys.get(kid)
      if (known !== undefined && clock.monotonic_ms() - read_ms < STALE_MS) return known
      await reload()?.catch((error: unknown) => {
        if (known === undefined) throw error // without the database a known key stays valid; admission refuses once the loss is too long
      })
      return keys.get(kid)
    },
    close: unsubscribe,
  }
}

async function readKeys(db: Db, retired_since: Date): Promise<Map<string, CryptoKey>> {
  const keys = new Map<string, CryptoKey>()
  for (const { kid, public_jwk } of await readSigningKeys(db, retired_since)) {
    const jwk = public_jwk as JWK
    if (jwk.kty !== 'EC' || jwk.crv !== 'P-256') continue // Berth makes no such keys, so this key must verify no token
    const key = await importJWK({ kty: jwk.kty, crv: jwk.crv, x: jwk.x ?? '', y: jwk.y ?? '' }, 'ES256')
    if (!(key instanceof Uint8Array)) keys.set(kid, key)
  }
  return keys
}
