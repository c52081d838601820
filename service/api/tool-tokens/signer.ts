import { calculateJwkThumbprint, CompactSign, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import { TOOL_TOKEN_ALGORITHM, TOOL_TOKEN_TYPE, type ToolTokenClaims } from '../../../contract/tool-token.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { readOrCreate } from '../key-files.ts'
import { publishKey } from './store.ts'

/** Signs tool tokens. Its private key never leaves this process and its file. */
export interface Signer {
  kid: string
  sign(claims: ToolTokenClaims): Promise<string>
}

/** Takes the signing key from the folder, makes one on first use, and publishes its public half for the gateways. */
export async function openSigner(directory: string, db: Db, clock: Clock): Promise<Signer> {
  const jwk = JSON.parse((await readOrCreate(directory, 'tool-token-key.json', makeKey)).toString('utf8')) as JWK & { kid: string }
  const key = await importJWK(jwk, TOOL_TOKEN_ALGORITHM)
  await publishKey(db, jwk.kid, publicHalf(jwk), clock.now())
  const header = { alg: TOOL_TOKEN_ALGORITHM, typ: TOOL_TOKEN_TYPE, kid: jwk.kid }
  const encoder = new TextEncoder()
  return {
    kid: jwk.kid,
    sign: (claims) => new CompactSign(encoder.encode(JSON.stringify(claims))).setProtectedHeader(header).sign(key),
  }
}

async function makeKey(): Promise<Buffer> {
  const { privateKey } = await generateKeyPair(TOOL_TOKEN_ALGORITHM, { extractable: true })
  const jwk = await exportJWK(privateKey)
  return Buffer.from(`${JSON.stringify({ ...jwk, kid: await calculateJwkThumbprint(jwk) })}\n`)
}

function publicHalf({ kty, crv, x, y, kid }: JWK & { kid: string }): object {
  return { kty, crv, x, y, kid, alg: TOOL_TOKEN_ALGORITHM, use: 'sig' }
}
