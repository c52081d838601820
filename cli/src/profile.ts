import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { CliError } from './command.ts'

export interface Profile {
  url: string
  api_key: string
  project?: string
  organization?: string
}

export function configFolder(): string {
  return process.env['BERTH_CONFIG_DIR'] ?? path.join(process.env['XDG_CONFIG_HOME'] ?? path.join(homedir(), '.config'), 'berth')
}

function fileOf(): string {
  return path.join(configFolder(), 'profiles.json')
}

export function readProfiles(): Record<string, Profile> {
  try {
    return JSON.parse(readFileSync(fileOf(), 'utf8')) as Record<string, Profile>
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw new CliError(`${fileOf()} cannot be read: ${(error as Error).message}`)
  }
}

export function writeProfile(name: string, profile: Profile): string {
  const file = fileOf()
  writeWhole(file, `${JSON.stringify({ ...readProfiles(), [name]: profile }, null, 2)}\n`)
  return file
}

/** A rename, so that a concurrent reader gets the old or the new text. Mode 0600 from the start. */
export function writeWhole(file: string, text: string): void {
  const folder = path.dirname(file)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const draft = path.join(folder, `.${path.basename(file)}.${process.pid}`)
  writeFileSync(draft, text, { mode: 0o600 })
  chmodSync(draft, 0o600)
  renameSync(draft, file)
}

/** Order of precedence: flags, environment, profile. */
export function credentials(name: string, flags: Partial<Record<string, string>>): Credentials {
  const profile = readProfiles()[name]
  const apiKey = process.env['BERTH_API_KEY'] || profile?.api_key
  if (!apiKey) throw new CliError('No API key is known', { next: 'berth login' })
  const project = flags['project'] || process.env['BERTH_PROJECT'] || profile?.project
  const organization = flags['organization'] || process.env['BERTH_ORGANIZATION'] || profile?.organization
  return { url: urlOf(profile, flags['url']), apiKey, ...(project ? { project } : {}), ...(organization ? { organization } : {}) }
}

interface Credentials {
  url: string
  apiKey: string
  project?: string
  organization?: string
}

export function urlOf(profile: Profile | undefined, url: string | undefined): string {
  return url || process.env['BERTH_URL'] || profile?.url || 'http://127.0.0.1:8080'
}
