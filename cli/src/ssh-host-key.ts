import { createHmac, createPrivateKey, createPublicKey, randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'

const SECRET_BYTES = 32
const KIND = 'ssh-ed25519'
/** DER prefix of an Ed25519 key (RFC 8410). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')

/** Concurrent first uses on this computer get the same secret. */
export function hostSecret(file: string): Buffer {
  const made = `${file}.${process.pid}`
  try {
    return readFileSync(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  writeFileSync(made, randomBytes(SECRET_BYTES), { mode: 0o600 })
  try {
    linkSync(made, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(made)
  }
  return readFileSync(file)
}

/**
 * Derived from a secret of this computer, so no template, fork or guest has the host key of another workspace.
 * @returns the seed for the server, and the line for known_hosts
 */
export function hostKeyOf(secret: Buffer, workspace_id: string): { seed: Buffer; line: string } {
  const seed = createHmac('sha256', secret).update(workspace_id).digest()
  const key = createPublicKey(createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' }))
  const { x = '' } = key.export({ format: 'jwk' })
  const wire = [Buffer.from(KIND), Buffer.from(x, 'base64url')].flatMap((part) => [sizeOf(part), part])
  return { seed, line: `${KIND} ${Buffer.concat(wire).toString('base64')}` }
}

function sizeOf(part: Buffer): Buffer {
  const size = Buffer.alloc(4)
  size.writeUInt32BE(part.length)
  return size
}
