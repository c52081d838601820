import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

/** Makes the names in a folder durable: what was made, renamed or removed in it. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
