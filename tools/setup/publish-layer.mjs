import { chmod, copyFile, link, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { exists, timed } from './cached-build.mjs'

export async function publishLayer(layers, { digest, image_path }, log) {
  const target = join(layers, `${digest}.erofs`)
  if (await exists(target)) return
  await timed(log, `template image ${digest.slice(0, 12)} is in place`, async () => {
    const unfinished = `${target}.new`
    await rm(unfinished, { force: true })
    // A hard link fails across file systems. The sync prevents a partial image after a power cut.
    await link(image_path, unfinished).catch(() => copyFile(image_path, unfinished))
    await chmod(unfinished, 0o444)
    await sync(unfinished)
    await rename(unfinished, target)
    await sync(layers)
  })
}

async function sync(path) {
  const handle = await open(path)
  await handle.sync().finally(() => handle.close())
}
