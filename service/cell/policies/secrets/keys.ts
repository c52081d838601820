import type { Logger } from 'pino'
import { openerOf, type Opener, type SealingKey } from '../../../core/keys/ring/sealed-values.ts'
import { sealingFolder, type SealingFolder } from '../../../core/keys/ring/sealing-folder.ts'
import { commandKeyWrapper } from '../../../core/keys/ring/wrapping.ts'
import { insertFirstSealingKey, listSealingKeys } from '../../../core/secrets/store.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'

export interface SecretKeysDeps {
  /** Folder of the key files, which only the cell's user can enter. All cells of an installation have the same files. */
  directory: string
  command: string
  db: Db
  clock: Clock
  log: Logger
}

const READ_MS = 1000

/** The first cell of an installation creates the first key. */
export async function openSecretKeys(deps: SecretKeysDeps): Promise<Opener> {
  const { directory, command, db, clock, log } = deps
  const folder = sealingFolder(directory, command === '' ? null : commandKeyWrapper(command), (name, error) =>
    log.error({ err: error, name, directory }, 'a file holds no sealing key'),
  )
  if ((await listSealingKeys(db)).length === 0) {
    const { key_id, public_jwk } = await ((await folder.files())[0] ?? (await folder.make('first'))).open()
    await insertFirstSealingKey(db, { key_id, public_jwk, created_at: clock.now() })
  }
  const keyOf = keysIn(folder, clock)
  await logMissingKeys(deps, keyOf)
  return { open: async (subject, value) => openerOf([await keyOf(value.key_id)]).open(subject, value) }
}

/** A key that failed is read again, since an operator may have restored its file. */
function keysIn(folder: SealingFolder, clock: Clock): (key_id: string) => Promise<SealingKey> {
  const known = new Map<string, { key: Promise<SealingKey>; asked_ms: number; is_lost: boolean }>() // bounded by the keys of rows
  const open = async (key_id: string): Promise<SealingKey> => {
    const found = (await folder.files()).find((each) => each.key_id === key_id)
    if (found === undefined) throw new Error(`The value was sealed for the key ${key_id}, which is not here`)
    return found.open()
  }
  return (key_id) => {
    const last = known.get(key_id)
    if (last !== undefined && (!last.is_lost || clock.monotonic_ms() - last.asked_ms < READ_MS)) return last.key
    const next = { key: open(key_id), asked_ms: clock.monotonic_ms(), is_lost: false }
    next.key.catch(() => {
      next.is_lost = true
    })
    known.set(key_id, next)
    return next.key
  }
}

async function logMissingKeys({ directory, db, log }: SecretKeysDeps, keyOf: (key_id: string) => Promise<SealingKey>): Promise<void> {
  for (const { key_id } of await listSealingKeys(db)) {
    try {
      await keyOf(key_id)
    } catch (error) {
      log.error({ err: error, key_id, directory }, 'a sealing key is missing: copy its file from another cell, or from a backup')
    }
  }
}
