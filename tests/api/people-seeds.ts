import { createHash, randomBytes } from 'node:crypto'
import { hashSync } from '@node-rs/argon2'
import type { Role } from '../../contract/access.ts'
import type { SignInLimits } from '../../service/api/access/auth/sign-in-bounds.ts'
import type { Db } from '../../service/db/database.ts'
import type { Ids } from '../../service/lib/ids.ts'

export const NO_BOUNDS: SignInLimits = {
  wrong_passwords_per_account_and_hour: 1e9,
  wrong_passwords_per_source_and_minute: 1e9,
  wrong_passwords_per_minute: 1e9,
  wrong_passwords_per_session_and_hour: 1e9,
  mails_per_address_and_hour: 1e9,
  mails_per_source_and_hour: 1e9,
}

export interface PersonOptions {
  email_verified?: boolean
  stepped_up?: boolean
}

/** Password of every seeded person. Its hash is cheap, since no test guesses it. */
export const PASSWORD = 'correct horse battery staple'
const PASSWORD_HASH = hashSync(PASSWORD, { memoryCost: 64, timeCost: 1, parallelism: 1 })
const SESSION_MS = 90 * 24 * 3600 * 1000

export function personSeeds(db: Db, ids: Ids, created_at: Date) {
  const insertSession = async (person_id: string, token_sha256: Buffer, stepped_up_at: Date | null) => {
    const id = ids.next()
    const times = { created_at, last_used_at: created_at, expires_at: new Date(created_at.getTime() + SESSION_MS), revoked_at: null }
    await db
      .insertInto('person_sessions')
      .values({ id, person_id, token_sha256, ...times, stepped_up_at })
      .execute()
    return id
  }
  return {
    async person(organization_id: string, role: Role, { email_verified = true, stepped_up = false }: PersonOptions = {}) {
      const id = ids.next()
      const email = `${id}@example.com`
      const token = `sfu_${randomBytes(32).toString('base64url')}`
      await db.insertInto('people').values({ id, email, email_verified, display_name: null, created_at }).execute()
      await db
        .insertInto('person_credentials')
        .values({ person_id: id, password_hash: PASSWORD_HASH, password_changed_at: created_at })
        .execute()
      await db.insertInto('memberships').values({ organization_id, person_id: id, role, created_at }).execute()
      await insertSession(id, createHash('sha256').update(token).digest(), stepped_up ? created_at : null)
      return { id, token, email }
    },
    session: (person_id: string) => insertSession(person_id, randomBytes(32), null),
  }
}
