import type { Tool } from '../../../contract/route.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import { openPrincipalCache, type PrincipalCache } from './principal-cache.ts'
import { type KeyStanding, readKeyStanding } from './store.ts'

/** null: the key does not exist. */
export type ApiKeys = PrincipalCache<KeyStanding | null>

export function openApiKeys(db: Db, listener: Pick<Listener, 'on'>): ApiKeys {
  return openPrincipalCache(listener, 'berth_api_key', (id) => readKeyStanding(db, id))
}

/** @returns null if the tokens of the key are still valid */
export function keyRefusal(
  standing: KeyStanding | null,
  token: { tools: readonly Tool[]; issued_at_seconds: number },
  now: Date,
): 'revoked_api_key' | 'revoked_api_key_tools' | null {
  if (standing === null || standing.revoked_at !== null) return 'revoked_api_key'
  if (standing.expires_at !== null && standing.expires_at <= now) return 'revoked_api_key'
  if (token.tools.some((tool) => !standing.tool_permissions.includes(tool))) return 'revoked_api_key_tools'
  // A token from the second of the change is accepted, because its tools have passed the check above.
  const changed_seconds = Math.floor((standing.tools_changed_at?.getTime() ?? 0) / 1000)
  return token.issued_at_seconds < changed_seconds ? 'revoked_api_key_tools' : null
}
