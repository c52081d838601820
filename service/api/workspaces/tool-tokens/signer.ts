import { calculateJwkThumbprint, CompactSign, exportJWK, generateKeyPair, importJWK, type CryptoKey, type JWK } from 'jose'
import type { Logger } from 'pino'
import { TOOL_TOKEN_ALGORITHM, TOOL_TOKEN_TYPE, type ToolTokenClaims } from '../../../../contract/tool-token.ts'
import type { Db } from '../../../db/database.ts'
import type { Listener } from '../../../db/listen.ts'
import type { Clock } from '../../../lib/clock.ts'
import { readOrCreate, replaceFile } from '../../../core/keys/ring/key-files.ts'
import { isRetired, publishKey } from './store.ts'

/** The private key never leaves this process and its file. */
export interface Signer {
  sign(claims: ToolTokenClaims): Promise<{ token: string; kid: string }>
  close(): void
}

export interface SignerDeps {
  directory: string
  db: Db
  listener: Pick<Listener, 'on'>
  clock: Clock
  logger: Logger
}

interface SigningKey {
  kid: string
  key: CryptoKey | Uint8Array
}

const FIRST_FILE = 'tool-token-key.json'
/** Enough keys for one rotation a day for a century. */
const KEYS_MAX = 40_000
const RETRY_MS = 1000

export async function openSigner(deps: SignerDeps): Promise<Signer> {
  let current = await currentKey(deps)
  let renewal: Promise<void> = Promise.resolve()
  let retry: NodeJS.Timeout | undefined
  const renew = () => {
    renewal = renewal.then(async () => {
      try {
        if (await isRetired(deps.db, current.kid)) current = await currentKey(deps)
      } catch (error) {
        deps.logger.warn({ err: error }, 'the signing key could not be read again')
        retry = setTimeout(renew, RETRY_MS).unref()
      }
    })
  }
  const unsubscribe = deps.listener.on('berth_signing_key', renew)
  renew() // the key may have been retired between its read and the subscription
  const encoder = new TextEncoder()
  return {
    async sign(claims) {
      const { kid, key } = current
      const header = { alg: TOOL_TOKEN_ALGORITHM, typ: TOOL_TOKEN_TYPE, kid }
      return { token: await new CompactSign(encoder.encode(JSON.stringify(claims))).setProtectedHeader(header).sign(key), kid }
    },
    close() {
      unsubscribe()
      clearTimeout(retry)
    },
  }
}

/** The file of a retired key has no private half and names its successor. All processes with the same folder therefore use the same key. */
async function currentKey({ directory, db, clock }: SignerDeps): Promise<SigningKey> {
  let file = FIRST_FILE
  for (let generation = 0; generation < KEYS_MAX; generation++) {
    const jwk = JSON.parse((await readOrCreate(directory, file, makeKey)).toString('utf8')) as JWK & { kid: string }
    if (jwk.d !== undefined && !(await isRetired(db, jwk.kid))) {
      await publishKey(db, jwk.kid, publicHalf(jwk), clock.now())
      return { kid: jwk.kid, key: await importJWK(jwk, TOOL_TOKEN_ALGORITHM) }
    }
    const successor = `tool-token-key-after-${jwk.kid}.json`
    if (jwk.d !== undefined) {
      await readOrCreate(directory, successor, makeKey)
      await replaceFile(directory, file, Buffer.from(`${JSON.stringify({ kid: jwk.kid })}\n`))
    }
    file = successor
  }
  throw new Error('the folder of signing keys leads nowhere')
}

async function makeKey(): Promise<Buffer> {
  const { privateKey } = await generateKeyPair(TOOL_TOKEN_ALGORITHM, { extractable: true })
  const jwk = await exportJWK(privateKey)
  return Buffer.from(`${JSON.stringify({ ...jwk, kid: await calculateJwkThumbprint(jwk) })}\n`)
}

function publicHalf({ kty, crv, x, y, kid }: JWK & { kid: string }): object {
  return { kty, crv, x, y, kid, alg: TOOL_TOKEN_ALGORITHM, use: 'sig' }
}
