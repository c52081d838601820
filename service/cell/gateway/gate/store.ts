import type { Db } from '../../../db/database.ts'

/** What became of an API key after it was used to obtain a token. */
export interface KeyStanding {
  revoked_at: Date | null
  expires_at: Date | null
  tool_permissions: readonly string[]
  tools_changed_at: Date | null
}

/** null: no such key. */
export async function readKeyStanding(db: Db, id: string): Promise<KeyStanding | null> {
  const row = await db
    .selectFrom('api_keys')
    .select(['revoked_at', 'expires_at', 'tool_permissions', 'tools_changed_at'])
    .where('id', '=', id)
    .executeTakeFirst()
  return row ?? null
}

/** Retired ones too: the last tokens of a key outlive its signing. */
export function readSigningKeys(db: Db): Promise<{ kid: string; public_jwk: object }[]> {
  return db.selectFrom('signing_keys').select(['kid', 'public_jwk']).execute()
}
