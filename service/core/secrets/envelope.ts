import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { Opener, SealedSubject, Sealer } from '../keys/ring/sealed-values.ts'

/** A value cannot be opened under another identity. */
export interface ValueOf {
  organization_id: string
  secret_id: string
  version: number
}

/** The data key is used for one value, and is sealed for the cells. */
export interface SealedSecret {
  key_id: string
  wrapped_key: string
  /** Nonce, tag, ciphertext. */
  ciphertext: Buffer
}

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

export async function sealSecret(sealer: Sealer, of: ValueOf, value: string): Promise<SealedSecret> {
  const data_key = randomBytes(KEY_BYTES)
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, data_key, nonce, { authTagLength: TAG_BYTES }).setAAD(identity(of))
  const encrypted = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
  const { key_id, sealed } = await sealer.seal(subjectOf(of), data_key)
  return { key_id, wrapped_key: sealed, ciphertext: Buffer.concat([nonce, cipher.getAuthTag(), encrypted]) }
}

/** Throws if a part was changed or belongs to another version. */
export async function openSecret(opener: Opener, of: ValueOf, { key_id, wrapped_key, ciphertext }: SealedSecret): Promise<string> {
  const data_key = await opener.open(subjectOf(of), { key_id, sealed: wrapped_key })
  const nonce = ciphertext.subarray(0, NONCE_BYTES)
  const tag = ciphertext.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES)
  const decipher = createDecipheriv(CIPHER, data_key, nonce, { authTagLength: TAG_BYTES }).setAAD(identity(of)).setAuthTag(tag)
  return Buffer.concat([decipher.update(ciphertext.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString('utf8')
}

/** Only the data key is sealed again. The ciphertext does not change. */
export async function rewrap(
  opener: Opener,
  sealer: Sealer,
  of: ValueOf,
  { key_id, wrapped_key }: Pick<SealedSecret, 'key_id' | 'wrapped_key'>,
): Promise<Pick<SealedSecret, 'key_id' | 'wrapped_key'>> {
  const sealed = await sealer.seal(subjectOf(of), await opener.open(subjectOf(of), { key_id, sealed: wrapped_key }))
  return { key_id: sealed.key_id, wrapped_key: sealed.sealed }
}

function subjectOf({ organization_id, secret_id, version }: ValueOf): SealedSubject {
  return { purpose: 'data_key', row: `secret_versions/${organization_id}/${secret_id}/${version}` }
}

function identity({ organization_id, secret_id, version }: ValueOf): Buffer {
  return Buffer.from(JSON.stringify(['secret', organization_id, secret_id, version]))
}
