import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import Type from 'typebox'
import { Value } from 'typebox/value'
import { readOrCreate } from './key-files.ts'
import { newKeyText, type SealingKey, sealingKeyOf } from './sealed-values.ts'
import type { KeyWrapper } from './wrapping.ts'

const PLAIN = '.jwk.json'
const WRAPPED = '.wrapped.json'
const WrappedFile = Type.Object({ key_id: Type.String({ minLength: 1 }), wrapped: Type.String({ minLength: 1 }) })

/** A wrapped private key is unwrapped only when the pair is opened. */
export interface KeyFile {
  file: string
  key_id: string
  open(): Promise<SealingKey>
}

export interface SealingFolder {
  /** Lists the valid files; an invalid file is skipped. */
  files(): Promise<KeyFile[]>
  make(name: string): Promise<KeyFile>
}

export function sealingFolder(
  directory: string,
  wrapping: KeyWrapper | null,
  spoilt: (name: string, error: unknown) => void = () => undefined,
): SealingFolder {
  return {
    async files() {
      const found: KeyFile[] = []
      for (const name of await namesIn(directory)) {
        if (!name.endsWith(PLAIN) && !name.endsWith(WRAPPED)) continue
        try {
          found.push(await keyFileOf(name, await readFile(join(directory, name)), wrapping))
        } catch (error) {
          spoilt(name, error)
        }
      }
      return found
    },
    async make(name) {
      const file = `${name}${wrapping === null ? PLAIN : WRAPPED}`
      const text = wrapping === null ? newKeyText : () => newWrapped(file, wrapping)
      return keyFileOf(file, await readOrCreate(directory, file, text), wrapping)
    },
  }
}

async function newWrapped(file: string, wrapping: KeyWrapper): Promise<Buffer> {
  const text = await newKeyText()
  const { key_id } = await sealingKeyOf(file, text)
  const wrapped = await wrapping.wrap(text)
  // Checked before use: a program that cannot unwrap its own output would lose every secret at the next start.
  if (!(await wrapping.unwrap(wrapped)).equals(text)) throw new Error('What was wrapped is unwrapped as something else')
  return Buffer.from(`${JSON.stringify({ key_id, wrapped: wrapped.toString('base64') })}\n`)
}

async function keyFileOf(file: string, content: Buffer, wrapping: KeyWrapper | null): Promise<KeyFile> {
  if (file.endsWith(PLAIN)) {
    const key = await sealingKeyOf(file, content)
    return { file, key_id: key.key_id, open: async () => key }
  }
  const { key_id, wrapped } = Value.Parse(WrappedFile, JSON.parse(content.toString('utf8')))
  return {
    file,
    key_id,
    async open() {
      if (wrapping === null) throw new Error(`${file} is wrapped, and no program is set that unwraps it: secret_keys_command`)
      const key = await sealingKeyOf(file, await wrapping.unwrap(Buffer.from(wrapped, 'base64')))
      if (key.key_id !== key_id) throw new Error(`${file} holds another key than it says`)
      return key
    },
  }
}

/** Does not create the folder, because the doctor must only read. */
async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (error) {
    if (['ENOENT', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}
