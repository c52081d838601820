import type { Tool } from '../../../../contract/route.ts'
import type { Db } from '../../../db/database.ts'
import type { Listener } from '../../../db/listen.ts'
import { type KeyStanding, readKeyStanding } from './store.ts'

/** The keys whose tokens were seen, kept fresh by NOTIFY. */
export interface ApiKeys {
  /** null: no such key. */
  standing(id: string): Promise<KeyStanding | null> | KeyStanding | null
  close(): void
}

const KEYS_MAX = 10_000

export function openApiKeys(db: Db, listener: Listener): ApiKeys {
  const known = new Map<string, KeyStanding | null>()
  const reading = new Map<string, Promise<KeyStanding | null>>()

  const read = (id: string) => {
    const started = readKeyStanding(db, id)
    reading.set(id, started)
    const settle = (standing: KeyStanding | null | undefined) => {
      if (reading.get(id) !== started) return // a change was announced meanwhile: what was read may be of before
      reading.delete(id)
      if (standing !== undefined) remember(known, id, standing)
    }
    started.then(settle, () => settle(undefined))
    return started
  }
  const forget = (id: string | null) => {
    if (id === null) known.clear()
    else known.delete(id)
    if (id === null) reading.clear()
    else reading.delete(id)
  }
  const unsubscribe = listener.on('berth_api_key', forget)
  return {
    standing(id) {
      const standing = known.get(id)
      return standing === undefined ? (reading.get(id) ?? read(id)) : standing
    },
    close: unsubscribe,
  }
}

function remember(known: Map<string, KeyStanding | null>, id: string, standing: KeyStanding | null): void {
  known.set(id, standing)
  if (known.size <= KEYS_MAX) return
  const [oldest] = known.keys()
  if (oldest !== undefined) known.delete(oldest)
}

/** Why tokens of this key are no longer good, if so. Pure. */
export function keyRefusal(
  standing: KeyStanding | null,
  token: { tools: readonly Tool[]; issued_at_seconds: number },
  now: Date,
): 'revoked_api_key' | 'revoked_api_key_tools' | null {
  if (standing === null || standing.revoked_at !== null) return 'revoked_api_key'
  if (standing.expires_at !== null && standing.expires_at <= now) return 'revoked_api_key'
  if (token.tools.some((tool) => !standing.tool_permissions.includes(tool))) return 'revoked_api_key_tools'
  // A token of the very second of the change still has tools that the key has, or the line above had refused it.
  const changed_seconds = Math.floor((standing.tools_changed_at?.getTime() ?? 0) / 1000)
  return token.issued_at_seconds < changed_seconds ? 'revoked_api_key_tools' : null
}
