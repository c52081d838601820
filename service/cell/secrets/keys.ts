import type { Logger } from 'pino'
import { openerOf, openSealingKey, type Opener, type SealingKey } from '../../core/key-ring/sealed-values.ts'
import { readSealingKeys } from '../../core/key-ring/sealing-folder.ts'
import { insertFirstSealingKey, listSealingKeys } from '../../core/secrets/store.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'

export interface SecretKeysDeps {
  /** A folder that only the cell's user can enter. All cells of an installation have the same files in theirs. */
  directory: string
  db: Db
  clock: Clock
  log: Logger
}

/** The folder is read for a key that is not known; for the same one again at most so often. */
const READ_MS = 1000

/** Opens what the api seals, by the keys of a folder. The first cell of an installation makes the first key. */
export async function openSecretKeys(deps: SecretKeysDeps): Promise<Opener> {
  const { directory, db, clock, log } = deps
  const read = () => readSealingKeys(directory, (name, error) => log.error({ err: error, name, directory }, 'a file holds no sealing key'))
  let keys = await read()
  const missed = new Map<string, number>() // bounded by the keys of rows
  if ((await listSealingKeys(db)).length === 0) {
    const key = keys[0] ?? (await openSealingKey(directory, 'first'))
    keys = await read()
    await insertFirstSealingKey(db, { key_id: key.key_id, public_jwk: key.public_jwk, created_at: clock.now() })
  }
  await complain(deps, keys)
  const has = (key_id: string) => keys.some((key) => key.key_id === key_id)
  return {
    async open(subject, value) {
      if (!has(value.key_id) && clock.monotonic_ms() - (missed.get(value.key_id) ?? Number.NEGATIVE_INFINITY) >= READ_MS) {
        missed.set(value.key_id, clock.monotonic_ms())
        keys = await read() // an operator has rotated it, or has brought a file that was missing
      }
      return openerOf(keys).open(subject, value)
    },
  }
}

/** Secrets of a key that is missing cannot be used: whoever looks after the computer is told at once. */
async function complain({ directory, db, log }: SecretKeysDeps, keys: SealingKey[]): Promise<void> {
  for (const { key_id } of await listSealingKeys(db)) {
    if (keys.some((key) => key.key_id === key_id)) continue
    log.error({ key_id, directory }, 'a sealing key is missing: copy its file from another cell, or from a backup')
  }
}
