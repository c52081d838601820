import { importJWK, type CryptoKey, type JWK } from 'jose'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { readSigningKeys } from './store.ts'

/** Public keys that verify tool tokens. */
export interface VerificationKeys {
  /** undefined: no such key, as far as could be told without asking the database more often than RELOAD_MS allows. */
  find(kid: string): Promise<CryptoKey | undefined>
}

/** RELIABILITY T43: a flood of unknown kids asks the database once in this time. */
const RELOAD_MS = 30_000
/** A key that was taken out of the table verifies nothing any more after this time. */
const STALE_MS = 60_000

export async function openVerificationKeys(db: Db, clock: Clock): Promise<VerificationKeys> {
  let keys = await readKeys(db)
  let asked_ms = Number.NEGATIVE_INFINITY
  let read_ms = clock.monotonic_ms()
  let reading: Promise<void> | null = null
  const reload = () => {
    if (reading === null && clock.monotonic_ms() - asked_ms >= RELOAD_MS) {
      asked_ms = clock.monotonic_ms()
      reading = readKeys(db)
        .then((read) => {
          keys = read
          read_ms = clock.monotonic_ms()
        })
        .finally(() => void (reading = null))
    }
    return reading
  }
  return {
    async find(kid) {
      const known = keys.get(kid)
      if (known !== undefined && clock.monotonic_ms() - read_ms < STALE_MS) return known
      await reload()?.catch((error: unknown) => {
        if (known === undefined) throw error // while the database is away, what was a key stays one; the gate knows when that ends
      })
      return keys.get(kid)
    },
  }
}

async function readKeys(db: Db): Promise<Map<string, CryptoKey>> {
  const keys = new Map<string, CryptoKey>()
  for (const { kid, public_jwk } of await readSigningKeys(db)) {
    const jwk = public_jwk as JWK
    if (jwk.kty !== 'EC' || jwk.crv !== 'P-256') continue // not a key of ours: it must verify nothing
    const key = await importJWK({ kty: jwk.kty, crv: jwk.crv, x: jwk.x ?? '', y: jwk.y ?? '' }, 'ES256')
    if (!(key instanceof Uint8Array)) keys.set(kid, key)
  }
  return keys
}
