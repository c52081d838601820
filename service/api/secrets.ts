import { createHmac, randomBytes } from 'node:crypto'
import { readOrCreate } from './key-files.ts'

export interface Secrets {
  cursor: Buffer
  idempotency: Buffer
}

const BYTES = 32

/** One secret of the installation, and a key of its own for each use of it. */
export async function openSecrets(directory: string): Promise<Secrets> {
  const secret = await readOrCreate(directory, 'service-secret', () => randomBytes(BYTES))
  if (secret.length !== BYTES) throw new Error('the service secret is not of its length')
  const keyFor = (use: string) => createHmac('sha256', secret).update(use).digest()
  return { cursor: keyFor('cursor'), idempotency: keyFor('idempotency') }
}
