import { randomBytes } from 'node:crypto'
import { link, mkdir, open, readdir, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'

const PRIVATE = 0o600

/**
 * Processes that start at the same time get the same content: the file is complete and synced before `link`, which fails if the name
 * exists.
 */
export async function readOrCreate(directory: string, name: string, make: () => Promise<Buffer> | Buffer): Promise<Buffer> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const path = join(directory, name)
  const existing = await readExisting(path)
  if (existing) return existing
  const temporary = temporaryName(path)
  await writeSynced(temporary, await make())
  try {
    await link(temporary, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error // another process created the file first, and it is read below
  } finally {
    await unlink(temporary)
  }
  return readFile(path)
}

export async function replaceFile(directory: string, name: string, content: Buffer): Promise<void> {
  const path = join(directory, name)
  const temporary = temporaryName(path)
  await writeSynced(temporary, content)
  await rename(temporary, path)
}

/** Creates the folder if it does not exist. */
export async function filesIn(directory: string): Promise<{ name: string; written_at: Date }[]> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const names = await readdir(directory)
  return Promise.all(names.map(async (name) => ({ name, written_at: (await stat(join(directory, name))).mtime })))
}

export async function dropFile(directory: string, name: string): Promise<void> {
  await rm(join(directory, name), { force: true })
}

function temporaryName(path: string): string {
  return `${path}.${process.pid}.${randomBytes(4).toString('hex')}`
}

export async function readExisting(path: string): Promise<Buffer | null> {
  try {
    return await readFile(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

async function writeSynced(path: string, content: Buffer): Promise<void> {
  const file = await open(path, 'wx', PRIVATE)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}
