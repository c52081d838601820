import { createHash, randomBytes } from 'node:crypto'

export interface NewApiKey {
  key_id: string
  /** `sfk_<key_id>_<secret>`: shown once, never stored. */
  api_key: string
  secret_sha256: Buffer
}

const API_KEY = /^sfk_([0-9a-f]{16})_([0-9a-f]{64})$/

/** Both parts are hex, so the underscore between them is unambiguous. */
export function newApiKey(): NewApiKey {
  return apiKeyOf(`sfk_${randomBytes(8).toString('hex')}_${randomBytes(32).toString('hex')}`)
}

export function apiKeyOf(api_key: string): NewApiKey {
  const [, key_id, secret] = API_KEY.exec(api_key) ?? []
  if (key_id === undefined || secret === undefined) throw new Error('The text is not an API key of Berth')
  return { key_id, api_key, secret_sha256: sha256(secret) }
}

/** A session token is `sfu_` and 43 characters (App, "Authentication"). */
export function newSessionToken(): { token: string; token_sha256: Buffer } {
  const token = `sfu_${randomBytes(32).toString('base64url')}`
  return { token, token_sha256: sha256(token) }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
