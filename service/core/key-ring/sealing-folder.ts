import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sealingKeyOf, type SealingKey } from './sealed-values.ts'

const SUFFIX = '.jwk.json'

/** Every key pair that lies in a folder. A file that holds none is told, and stops nobody from using the others. */
export async function readSealingKeys(
  directory: string,
  spoilt: (name: string, error: unknown) => void,
): Promise<(SealingKey & { file: string })[]> {
  const keys: (SealingKey & { file: string })[] = []
  for (const name of await namesIn(directory)) {
    if (!name.endsWith(SUFFIX)) continue
    try {
      keys.push({ file: name, ...(await sealingKeyOf(name, await readFile(join(directory, name)))) })
    } catch (error) {
      spoilt(name, error)
    }
  }
  return keys
}

/** None where there is no folder, or none that may be read: the doctor looks, and makes nothing. */
async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (error) {
    if (['ENOENT', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}
