import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { filesIn } from './key-files.ts'
import { sealingKeyOf, type SealingKey } from './sealed-values.ts'

const SUFFIX = '.jwk.json'

/** Every key pair that lies in a folder. A file that holds none is told, and stops nobody from using the others. */
export async function readSealingKeys(directory: string, spoilt: (name: string, error: unknown) => void): Promise<SealingKey[]> {
  const keys: SealingKey[] = []
  for (const { name } of await filesIn(directory)) {
    if (!name.endsWith(SUFFIX)) continue
    try {
      keys.push(await sealingKeyOf(name, await readFile(join(directory, name))))
    } catch (error) {
      spoilt(name, error)
    }
  }
  return keys
}
