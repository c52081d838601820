// See App, "Client versions". A failure never affects a command.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { wire } from '../../sdk/typescript/src/main.ts'
import { escapeLine } from './print.ts'
import { configFolder, writeWhole } from './profile.ts'

export const PACKAGE = '@berth/cli'
export const CHECK = 'version-check'
const DAY_MS = 24 * 60 * 60_000
const ANSWER_MS = 10_000
const VERSION = /^\d+\.\d+\.\d+$/

type Client = wire.ClientVersions['clients'][number]
interface Known {
  asked_at: number
  client?: Client
}

/** Reports the last check's result and starts the next check, only on a terminal. */
export async function checkInBackground(url: () => string, version: string, say: (text: string) => void): Promise<void> {
  if (!process.stderr.isTTY || process.env['CI'] || process.env['BERTH_NO_VERSION_CHECK']) return
  try {
    const known = read()
    const said = noticeOf(known.client, version)
    const age_ms = Date.now() - known.asked_at
    if (age_ms >= 0 && age_ms < DAY_MS) return
    if (said !== null) say(said)
    write({ ...known, asked_at: Date.now() })
    const { spawn } = await import('node:child_process')
    spawn(process.execPath, [...process.execArgv, process.argv[1] ?? '', CHECK, url()], { detached: true, stdio: 'ignore' })
      .on('error', () => undefined)
      .unref()
  } catch {
    // The folder may not be writable: the check is skipped.
  }
}

export async function checkVersion(url: string): Promise<void> {
  const response = await fetch(`${url}/v1/client-versions`, { redirect: 'error', signal: AbortSignal.timeout(ANSWER_MS) })
  const { clients } = (await response.json()) as wire.ClientVersions
  const client = clients.find((each) => each.package === PACKAGE)
  if (client) write({ asked_at: Date.now(), client })
}

function noticeOf(client: Client | undefined, version: string): string | null {
  if (!client) return null
  const { latest, minimum_supported, upgrade_command } = client
  if (isOlder(version, minimum_supported))
    return `This is berth ${version}, and the service supports ${escapeLine(minimum_supported)} and newer. Try: ${escapeLine(upgrade_command)}`
  return latest !== null && isOlder(version, latest) ? `berth ${escapeLine(latest)} is there. Try: ${escapeLine(upgrade_command)}` : null
}

function isOlder(version: string, than: string): boolean {
  if (!VERSION.test(version) || !VERSION.test(than)) return false
  const [a, b] = [version, than].map((text) => text.split('.').map(Number))
  const at = a?.findIndex((part, index) => part !== b?.[index]) ?? -1
  return at >= 0 && (a?.[at] ?? 0) < (b?.[at] ?? 0)
}

const fileOf = () => path.join(configFolder(), 'version.json')

function read(): Known {
  try {
    return JSON.parse(readFileSync(fileOf(), 'utf8')) as Known
  } catch {
    return { asked_at: 0 }
  }
}

function write(known: Known): void {
  writeWhole(fileOf(), JSON.stringify(known))
}
