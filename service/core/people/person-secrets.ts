import { createCipheriv, createDecipheriv, createHmac, hash, randomBytes } from 'node:crypto'
import { readOrCreate } from '../keys/ring/key-files.ts'

const FILE = 'people.key'
const KEY_BYTES = 32
const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** The key is outside the database, so a copy of the database reveals neither secrets nor mailed links. */
export interface PersonSecrets {
  seal(person_id: string, value: Buffer): Buffer
  /** @returns null if the value was sealed with another key, or for another person. */
  open(person_id: string, sealed: Buffer): Buffer | null
  /** @returns the same token each time the mail is retried. */
  tokenOf(mail_id: string): string
}

/** @param directory a folder of the api's user, shared by all api processes. */
export async function openPersonSecrets(directory: string): Promise<PersonSecrets> {
  const secret = await readOrCreate(directory, FILE, () => randomBytes(KEY_BYTES))
  if (secret.length !== KEY_BYTES) throw new Error(`${FILE} in ${directory} is no key: put it back from a backup`)
  const derived = (purpose: string) => createHmac('sha256', secret).update(purpose).digest()
  const [sealing, linking] = [derived('seal'), derived('link')]
  return {
    seal(person_id, value) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, sealing, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(person_id))
      const encrypted = Buffer.concat([cipher.update(value), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), encrypted])
    },
    open(person_id, sealed) {
      const nonce = sealed.subarray(0, NONCE_BYTES)
      const tag = sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES)
      try {
        const decipher = createDecipheriv(CIPHER, sealing, nonce, { authTagLength: TAG_BYTES })
          .setAAD(Buffer.from(person_id))
          .setAuthTag(tag)
        return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()])
      } catch {
        return null // the person still signs in with a recovery code
      }
    },
    tokenOf: (mail_id) => createHmac('sha256', linking).update(mail_id).digest('base64url'),
  }
}

/** A fast hash is enough, because tokens and recovery codes are long and random. */
export function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
