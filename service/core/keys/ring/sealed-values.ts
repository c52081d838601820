import {
  CompactEncrypt,
  compactDecrypt,
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
  calculateJwkThumbprint,
} from 'jose'
import { readOrCreate } from './key-files.ts'

/** The row of a value. A value that was copied into another row cannot be opened. */
export interface SealedSubject {
  purpose: string
  /** For example 'secret_versions/<uuid>/3'. */
  row: string
}

/** Seals values with the public key alone, so it cannot open them. */
export interface Sealer {
  seal(subject: SealedSubject, value: Buffer): Promise<SealedValue>
}

/** Opens values. Throws if the subject differs or the value was changed. */
export interface Opener {
  open(subject: SealedSubject, value: SealedValue): Promise<Buffer>
}

/** `key_id` is repeated in a column of its own, by which the rows that need a key are counted. */
export interface SealedValue {
  key_id: string
  /** A compact JWE. */
  sealed: string
}

/** The private key never leaves its folder. */
export interface SealingKey {
  key_id: string
  public_jwk: JWK
  private_key: CryptoKey
}

/** Ephemeral key agreement with the public key, then AES-256-GCM (RFC 7518, 4.6 and 5.3). */
const AGREEMENT = 'ECDH-ES'
const CIPHER = 'A256GCM'
const CURVE = 'P-256'
/** Name of the subject in the protected header, which the cipher authenticates. */
const SUBJECT = 'berth_subject'

export async function openSealingKey(directory: string, name: string): Promise<SealingKey> {
  const file = `${name}.jwk.json`
  return sealingKeyOf(file, await readOrCreate(directory, file, newKeyText))
}

export async function sealingKeyOf(file: string, content: Buffer): Promise<SealingKey> {
  const jwk = JSON.parse(content.toString('utf8')) as JWK
  const private_key = await importJWK(jwk, AGREEMENT)
  if (private_key instanceof Uint8Array || jwk.d === undefined) throw new Error(`${file} holds no private key`)
  const { kty, crv, x, y } = jwk as { kty: string; crv: string; x: string; y: string }
  return { key_id: await calculateJwkThumbprint(jwk), public_jwk: { kty, crv, x, y }, private_key }
}

export async function newKeyText(): Promise<Buffer> {
  const { privateKey } = await generateKeyPair(AGREEMENT, { crv: CURVE, extractable: true })
  return Buffer.from(`${JSON.stringify(await exportJWK(privateKey))}\n`)
}

export async function sealerFor(public_jwk: JWK): Promise<Sealer> {
  if (public_jwk.d !== undefined) throw new Error('A sealer gets the public half alone')
  const key_id = await calculateJwkThumbprint(public_jwk)
  const key = await importJWK(public_jwk, AGREEMENT)
  return {
    async seal(subject, value) {
      const header = { alg: AGREEMENT, enc: CIPHER, kid: key_id, [SUBJECT]: subjectText(subject) }
      return { key_id, sealed: await new CompactEncrypt(value).setProtectedHeader(header).encrypt(key) }
    },
  }
}

export function openerOf(keys: readonly SealingKey[]): Opener {
  return {
    async open(subject, { key_id, sealed }) {
      const key = keys.find((each) => each.key_id === key_id)
      if (key === undefined) throw new Error(`The value was sealed for the key ${key_id}, which is not here`)
      const options = { keyManagementAlgorithms: [AGREEMENT], contentEncryptionAlgorithms: [CIPHER] }
      const { plaintext, protectedHeader } = await compactDecrypt(sealed, key.private_key, options)
      if (protectedHeader[SUBJECT] !== subjectText(subject)) throw new Error('The value is of another row')
      return Buffer.from(plaintext)
    },
  }
}

function subjectText({ purpose, row }: SealedSubject): string {
  return JSON.stringify([purpose, row])
}
