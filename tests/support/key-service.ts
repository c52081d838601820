import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Writes a program that wraps and unwraps like a key service's client, with its own key.
 * @returns its path. While a file `away` is in the folder, the service is unavailable.
 */
export async function keyService(directory: string): Promise<string> {
  const program = join(directory, 'kms')
  const key = randomBytes(32).toString('hex')
  await writeFile(
    program,
    `#!${process.execPath}
const { createCipheriv, createDecipheriv, randomBytes } = require('node:crypto')
const { existsSync, readFileSync } = require('node:fs')
if (existsSync(${JSON.stringify(join(directory, 'away'))})) {
  console.error('the key service is away')
  process.exit(3)
}
const [key, given] = [Buffer.from('${key}', 'hex'), readFileSync(0)]
if (process.argv[2] === 'wrap') {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  process.stdout.write(Buffer.concat([nonce, cipher.update(given), cipher.final(), cipher.getAuthTag()]))
} else if (process.argv[2] === 'unwrap') {
  const cipher = createDecipheriv('aes-256-gcm', key, given.subarray(0, 12)).setAuthTag(given.subarray(-16))
  process.stdout.write(Buffer.concat([cipher.update(given.subarray(12, -16)), cipher.final()]))
} else process.exit(2)
`,
    { mode: 0o700 },
  )
  return program
}
