import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Db } from '../../../db/database.ts'
import type { Listener } from '../../../db/listen.ts'
import type { Clock } from '../../../lib/clock.ts'
import { dropFile, filesIn, readExisting, readOrCreate } from './key-files.ts'
import { announceKey, listKeys, writeCheck, type KeyRow } from './key-ring-store.ts'
import { activeOf, FIRST_KEY_ID, PURPOSES, type Purpose } from './purposes.ts'

export interface KeyRing {
  /** @returns the signature, which begins with the id of the active key. */
  sign(bytes: number, ...parts: (string | Buffer)[]): Buffer
  verifies(signed: Buffer, bytes: number, ...parts: (string | Buffer)[]): boolean
}

export interface KeyRings extends Record<Purpose, KeyRing> {
  close(): void
}

export interface KeyRingDeps {
  /** Only the api's user can enter this folder. All api processes share it. */
  directory: string
  db: Db
  listener: Pick<Listener, 'on'>
  clock: Clock
  logger: Logger
}

interface RingKey {
  key_id: string
  secret: Buffer
  created_at: Date
}

const SECRET_BYTES = 32
const KEY_ID_BYTES = 4
/** The secret of installations that are older than the key ring. */
const UNVERSIONED_FILE = 'service-secret'
const FILE = /^(cursor|idempotency)\.([0-9a-f]{8})\.key$/
const RETRY_MS = 1000

export async function openKeyRings(deps: KeyRingDeps): Promise<KeyRings> {
  await announceFiles(deps)
  const rings = new Map<Purpose, RingKey[]>()
  for (const purpose of PURPOSES) rings.set(purpose, await readRing(deps, purpose))
  await dropFile(deps.directory, UNVERSIONED_FILE) // the first keys have been derived from this file
  let reading: Promise<void> = Promise.resolve()
  let retry: NodeJS.Timeout | undefined
  const readAgain = () => {
    reading = reading.then(async () => {
      try {
        for (const purpose of PURPOSES) rings.set(purpose, await readRing(deps, purpose))
      } catch (error) {
        deps.logger.warn({ err: error }, 'the keys could not be read again')
        retry = setTimeout(readAgain, RETRY_MS).unref()
      }
    })
  }
  const unsubscribe = deps.listener.on('berth_service_key', readAgain)
  readAgain() // a key may have been announced between the first read and the subscription
  const keysOf = (purpose: Purpose) => rings.get(purpose) ?? []
  return {
    cursor: ringOf(() => keysOf('cursor'), deps.clock),
    idempotency: ringOf(() => keysOf('idempotency'), deps.clock),
    close() {
      unsubscribe()
      clearTimeout(retry)
    },
  }
}

function ringOf(keys: () => RingKey[], clock: Clock): KeyRing {
  return {
    sign(bytes, ...parts) {
      const active = activeOf(keys(), clock.now())
      if (active === undefined) throw new Error('There is no key to sign with')
      return Buffer.concat([Buffer.from(active.key_id, 'hex'), macOf(active.secret, bytes, parts)])
    },
    verifies(signed, bytes, ...parts) {
      const named = signed.length === KEY_ID_BYTES + bytes
      if (!named && signed.length !== bytes) return false
      const key_id = named ? signed.subarray(0, KEY_ID_BYTES).toString('hex') : FIRST_KEY_ID
      const key = keys().find((each) => each.key_id === key_id)
      return key !== undefined && timingSafeEqual(signed.subarray(-bytes), macOf(key.secret, bytes, parts))
    },
  }
}

function macOf(secret: Buffer, bytes: number, parts: (string | Buffer)[]): Buffer {
  const mac = createHmac('sha256', secret)
  for (const part of parts) mac.update(part)
  return mac.digest().subarray(0, bytes)
}

/** A database restored from an older backup lacks the rows of newer keys. */
async function announceFiles({ directory, db, clock }: KeyRingDeps): Promise<void> {
  for (const { name, written_at } of await filesIn(directory)) {
    const [, purpose, key_id] = FILE.exec(name) ?? []
    const found = PURPOSES.find((each) => each === purpose)
    if (found !== undefined && key_id !== undefined) await announceKey(db, { purpose: found, key_id, created_at: written_at })
  }
  for (const purpose of PURPOSES) {
    const is_first = (await listKeys(db, purpose)).length === 0
    if (is_first) await announceKey(db, { purpose, key_id: FIRST_KEY_ID, created_at: clock.now() })
  }
}

async function readRing(deps: KeyRingDeps, purpose: Purpose): Promise<RingKey[]> {
  const keys: RingKey[] = []
  for (const row of await listKeys(deps.db, purpose)) {
    const secret = await secretOf(deps, row)
    if (secret !== null) keys.push({ key_id: row.key_id, secret, created_at: row.created_at })
  }
  if (keys.length > 0) return keys
  await announceKey(deps.db, { purpose, key_id: randomBytes(KEY_ID_BYTES).toString('hex'), created_at: deps.clock.now() })
  return readRing(deps, purpose)
}

/** A lost secret is not replaced: a new one under the same id would not verify the old signatures. */
async function secretOf({ directory, db, logger }: KeyRingDeps, row: KeyRow): Promise<Buffer | null> {
  const { purpose, key_id, check_sha256, retired_at } = row
  const name = `${purpose}.${key_id}.key`
  if (retired_at !== null) {
    await dropFile(directory, name)
    return null
  }
  const secret =
    check_sha256 === null
      ? await readOrCreate(directory, name, () => firstSecret(directory, purpose, key_id))
      : await readExisting(join(directory, name))
  const digest = secret === null ? null : createHash('sha256').update(secret).digest()
  if (secret?.length !== SECRET_BYTES || digest === null || (check_sha256 !== null && !check_sha256.equals(digest))) {
    logger.error({ purpose, key_id, directory }, 'a key is missing, or is another: put its file back from a backup, or retire it')
    return null
  }
  if (check_sha256 === null) await writeCheck(db, purpose, key_id, digest)
  return secret
}

/** The first key is derived from the secret of older installations, if there is one. */
async function firstSecret(directory: string, purpose: Purpose, key_id: string): Promise<Buffer> {
  const before = key_id === FIRST_KEY_ID ? await readExisting(join(directory, UNVERSIONED_FILE)) : null
  return before === null ? randomBytes(SECRET_BYTES) : createHmac('sha256', before).update(purpose).digest()
}
