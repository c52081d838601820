import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { syncFolder } from '../../lib/sync-folder.ts'
import { padding, TAR_END } from '../../lib/tar-write.ts'
import { AdminError } from '../command.ts'
import { manifestName, manifestText, ownArchitecture, type Manifest } from './manifest.ts'
import { tarHead } from './tar.ts'

export type Exported = Omit<Manifest, 'layers' | 'architecture'> & { layers: string[] }

/** Writes to a temporary name. The file gets its name when it is complete and durable. */
export async function writeTemplateFile(output: string, layers_dir: string, { layers, ...version }: Exported): Promise<void> {
  const images = await Promise.all([...new Set(layers)].map((sha256) => imageOf(layers_dir, sha256)))
  const sizes = new Map(images.map(({ sha256, size_bytes }) => [sha256, size_bytes]))
  const listed = layers.map((sha256) => ({ sha256, size_bytes: sizes.get(sha256) ?? 0 }))
  const manifest = Buffer.from(manifestText({ ...version, architecture: ownArchitecture(), layers: listed }))
  const unfinished = `${output}.new-${process.pid}`
  const file = await open(unfinished, 'wx', 0o600)
  try {
    await write(file, manifestName(manifest), manifest)
    for (const image of images) await writeImage(file, image)
    await file.writeFile(TAR_END)
    await file.sync()
    await file.close()
    await rename(unfinished, output)
  } catch (error) {
    await file.close().catch(() => undefined)
    await rm(unfinished, { force: true })
    throw error
  }
  await syncFolder(dirname(resolve(output)))
}

interface Image {
  sha256: string
  path: string
  size_bytes: number
}

async function imageOf(layers_dir: string, sha256: string): Promise<Image> {
  const path = join(layers_dir, `${sha256}.erofs`)
  const found = await stat(path).catch(() => undefined)
  if (found === undefined) throw new AdminError(`The layer ${sha256} is not on this computer: ${path}`)
  return { sha256, path, size_bytes: found.size }
}

async function write(file: FileHandle, name: string, bytes: Buffer): Promise<void> {
  await file.writeFile(tarHead({ name, size: bytes.length }))
  await file.writeFile(bytes)
  await file.writeFile(padding(bytes.length))
}

async function writeImage(file: FileHandle, { sha256, path, size_bytes }: Image): Promise<void> {
  await file.writeFile(tarHead({ name: `layers/${sha256}.erofs`, size: size_bytes }))
  const hash = createHash('sha256')
  let written = 0
  for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    hash.update(piece)
    written += piece.length
    await file.writeFile(piece)
  }
  if (hash.digest('hex') !== sha256 || written !== size_bytes)
    throw new AdminError(`The layer ${sha256} is damaged: its bytes are not those of its name`)
  await file.writeFile(padding(size_bytes))
}
