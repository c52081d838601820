import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { chmod, mkdir, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncFolder } from '../../lib/sync-folder.ts'
import { AdminError } from '../command.ts'
import { touchLayers } from '../touch-layers.ts'
import { MANIFEST_BYTES_MAX, ownArchitecture, parseManifest, type Manifest } from './manifest.ts'
import { BadTar, TarReader } from './tar.ts'

/** Folder of unfinished layers: hostd empties it when it starts. */
const UNFINISHED = 'making'

/** A layer is renamed into hostd's folder when it is complete and durable and its digest matches. A repeat changes nothing. */
export async function readTemplateFile(input: string, layers_dir: string): Promise<Manifest> {
  const file = await open(input).catch((error: unknown) => {
    throw new AdminError(`${input} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  })
  try {
    const reader = new TarReader(file)
    const manifest = await readManifest(reader)
    for (const [sha256, size_bytes] of new Map(manifest.layers.map((layer) => [layer.sha256, layer.size_bytes]))) {
      const head = await reader.next()
      if (head?.name !== `layers/${sha256}.erofs` || head.size !== size_bytes)
        throw new BadTar(`the layer ${sha256} is not where it should be`)
      await placeLayer(layers_dir, sha256, reader.bytes(size_bytes))
    }
    if ((await reader.next()) !== null) throw new BadTar('it holds more than its manifest says')
    const digests = manifest.layers.map(({ sha256 }) => sha256)
    const [gone] = await touchLayers(layers_dir, digests)
    if (gone !== undefined) throw new AdminError(`The layer ${gone} was removed meanwhile: import it again`)
    return manifest
  } catch (error) {
    if (error instanceof AdminError || !(error instanceof BadTar || error instanceof Refused)) throw error
    throw new AdminError(`${input} is no template that can be imported: ${error.message}`)
  } finally {
    await file.close()
  }
}

class Refused extends Error {}

async function readManifest(reader: TarReader): Promise<Manifest> {
  const head = await reader.next()
  if (head === null || !head.name.startsWith('manifest-') || head.size > MANIFEST_BYTES_MAX)
    throw new Refused('it does not begin with a manifest')
  const pieces: Buffer[] = []
  for await (const piece of reader.bytes(head.size)) pieces.push(piece)
  try {
    const manifest = parseManifest(head.name, Buffer.concat(pieces))
    const own = ownArchitecture()
    if (manifest.architecture !== own) throw new Error(`it is of the architecture ${manifest.architecture}, and this computer is ${own}`)
    return manifest
  } catch (error) {
    throw new Refused((error as Error).message)
  }
}

async function placeLayer(layers_dir: string, sha256: string, bytes: AsyncIterable<Buffer>): Promise<void> {
  const target = join(layers_dir, `${sha256}.erofs`)
  const is_there = (await digestOf(target)) === sha256 // a damaged image is replaced
  const folder = join(layers_dir, UNFINISHED)
  const unfinished = join(folder, `import-${randomUUID()}.erofs`)
  if (!is_there) await mkdir(folder, { recursive: true, mode: 0o700 })
  const file = is_there ? null : await open(unfinished, 'wx', 0o600)
  try {
    const hash = createHash('sha256')
    for await (const piece of bytes) {
      hash.update(piece)
      await file?.writeFile(piece)
    }
    if (hash.digest('hex') !== sha256) throw new BadTar(`the layer ${sha256} is damaged: its bytes are not those of its name`)
    await file?.sync()
  } catch (error) {
    await file?.close()
    await rm(unfinished, { force: true })
    throw error
  }
  if (file === null) return
  await file.close()
  await chmod(unfinished, 0o444)
  await rename(unfinished, target)
  await syncFolder(layers_dir)
}

async function digestOf(path: string): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) hash.update(piece)
  } catch {
    return undefined // the caller then writes or refuses the layer
  }
  return hash.digest('hex')
}
