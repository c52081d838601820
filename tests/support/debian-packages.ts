import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { patience } from './patience.ts'

const run = promisify(execFile)
const SUITE = 'bookworm'

/** Downloads packages with this computer's apt. @returns the reason if that is impossible, else undefined */
export async function debianPackages(folder: string, names: readonly string[]): Promise<string | undefined> {
  const codename = /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1]
  if (codename !== SUITE) return `this computer is no ${SUITE}`
  mkdirSync(folder)
  try {
    await run('apt-get', ['download', ...names], { cwd: folder, timeout: patience(120_000) })
  } catch (error) {
    return (error as Error).message.split('\n')[0] ?? ''
  }
  return undefined
}

export async function unpack(packages: string, below: string): Promise<void> {
  for (const name of readdirSync(packages)) await run('dpkg-deb', ['-x', path.join(packages, name), below])
}
