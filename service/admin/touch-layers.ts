import { utimes } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * hostd does not remove recently modified layers (decision 230).
 * @returns the digests that are missing.
 */
export async function touchLayers(layers_dir: string, digests: readonly string[]): Promise<string[]> {
  const now = new Date()
  const missing: string[] = []
  for (const digest of digests)
    await utimes(join(layers_dir, `${digest}.erofs`), now, now).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      missing.push(digest)
    })
  return missing
}
