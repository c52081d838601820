import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

/** Syncs a folder, so that names that were created, renamed or removed in it survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
