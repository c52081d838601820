import { sealerFor } from '../../../core/keys/ring/sealed-values.ts'
import { sealSecret, type SealedSecret, type ValueOf } from '../../../core/secrets/envelope.ts'
import { lockNewestKey } from '../../../core/secrets/store.ts'
import type { Tx } from '../../../db/reader.ts'
import { fail } from '../../../lib/fail.ts'

/** Only cells can open the sealed value; the api cannot. */
export async function sealForCells(tx: Tx, of: ValueOf, value: string): Promise<SealedSecret> {
  const key = await lockNewestKey(tx)
  if (key === null) {
    throw fail('dependency_unavailable', null, 'No secret can be kept before a cell has made its key', { retry_after_seconds: 5 })
  }
  return sealSecret(await sealerFor(key.public_jwk), of, value)
}
