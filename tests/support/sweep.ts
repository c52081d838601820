import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { glob, rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { isAlive } from '../../tools/setup/alive.mjs'
import { isRunning } from './processes.ts'
import { patience } from './patience.ts'

export const TEST_ROOT = '/tmp/berth-test-service'
const CLEAN = path.resolve(import.meta.dirname, '../../tools/clean.mjs')
const CLEAN_MS = 300_000
/** A more recent folder may belong to a server that has not written its pid yet. */
const STARTING_MS = 60_000

export async function sweepServices(): Promise<void> {
  if (!existsSync(TEST_ROOT)) return
  for (const name of readdirSync(TEST_ROOT)) {
    const folder = path.join(TEST_ROOT, name)
    const owner = readOwner(path.join(folder, 'owner'))
    if (owner !== undefined && isAlive(owner)) continue
    const data_dir = owner?.data_dir ?? path.join(folder, 'data')
    await promisify(execFile)(process.execPath, [CLEAN, '--data-dir', data_dir, '--data'], {
      env: cleanEnvironment(),
      timeout: patience(CLEAN_MS),
    })
    await rm(folder, { recursive: true, force: true })
  }
}

export async function sweepServers(): Promise<void> {
  for await (const folder of glob('/tmp/berth-test-pg-*')) {
    if (Date.now() - statSync(folder).ctimeMs < STARTING_MS || isRunning(serverPid(folder))) continue
    await rm(folder, { recursive: true, force: true })
  }
}

function serverPid(folder: string): number {
  try {
    return Number.parseInt(readFileSync(path.join(folder, 'data', 'postmaster.pid'), 'utf8'), 10)
  } catch {
    return 0 // the server never started, or ended normally
  }
}

/** Only the cache folder of the user's settings may reach an installation under test. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const keep = (name: string) => name !== 'DATABASE_URL' && (!name.startsWith('BERTH_') || name === 'BERTH_CACHE_DIR')
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => keep(name)))
}

interface Owner {
  pid: number
  start_time: number
  data_dir: string
}

function readOwner(file: string): Owner | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Owner
  } catch {
    return undefined // the process was killed before it wrote the file
  }
}
