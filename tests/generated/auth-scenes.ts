import { createHash, randomBytes } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'
import type { Role } from '../../contract/access.ts'
import type { AppRoute } from '../../contract/route.ts'
import type { EmailTokenPurpose } from '../../contract/states/mail.ts'
import { PASSWORD } from '../api/people-seeds.ts'
import { seeder, type World } from '../api/support.ts'
import { OWNER, PERSON, type Ids } from './app-world.ts'

export const isSignIn = ({ id }: Pick<AppRoute, 'id'>): boolean => id.startsWith('auth.')

const digestOf = (text: string) => createHash('sha256').update(text).digest()
const RECOVERY_CODE = 'AAAA-BBBB-CCCC-DDDD'

/** Each call gets a new person: these routes change the calling session. */
export async function signInScene(w: World, route: AppRoute, role: Role = 'owner'): Promise<Ids> {
  const seeds = seeder(w.database, w.clock, w.ids)
  const options = { stepped_up: true, email_verified: route.id !== 'auth.verify_email' }
  const { id, token, email } = await seeds.person(w.a.organization_id, role, options)
  const ids: Ids = { [OWNER]: token, [PERSON]: id, email }
  const db = w.database.superuser
  const credentials = (change: object) => db.updateTable('person_credentials').set(change).where('person_id', '=', id).execute()
  const emailed = async (purpose: EmailTokenPurpose) => {
    const mailed = randomBytes(32).toString('base64url')
    const times = { created_at: w.clock.now(), expires_at: new Date(w.clock.now().getTime() + 3600_000), used_at: null }
    await db
      .insertInto('email_tokens')
      .values({ token_sha256: digestOf(mailed), person_id: id, purpose, email: `new-${email}`, ...times })
      .execute()
    return { ...ids, token: mailed }
  }
  switch (route.id) {
    case 'auth.verify_email':
      return emailed('verify_email')
    case 'auth.confirm_reset':
      return emailed('reset_password')
    case 'auth.confirm_email':
      return emailed('change_email')
    case 'auth.mfa_challenge':
      await db.updateTable('person_sessions').set({ mfa_pending: true }).where('person_id', '=', id).execute()
      await db
        .insertInto('recovery_codes')
        .values({ person_id: id, code_sha256: digestOf(RECOVERY_CODE), created_at: w.clock.now(), used_at: null })
        .execute()
      return ids
    case 'auth.end_session':
      return { ...ids, session_id: await seeds.session(id) }
    case 'auth.confirm_totp': {
      const { body } = await w.post('/v1/auth/mfa/totp', undefined, { as: token })
      return { ...ids, code: new TOTP({ secret: Secret.fromBase32(body.secret) }).generate({ timestamp: w.clock.now().getTime() }) }
    }
    case 'auth.disable_totp':
    case 'auth.issue_recovery_codes':
      await credentials({ totp_sealed: randomBytes(48) })
      return ids
    default:
      return ids
  }
}

export function signInBody(route: AppRoute, { email = '', token = '', code = '' }: Ids): object {
  switch (route.id) {
    case 'auth.register':
      return { email: `registers-${email}`, password: PASSWORD }
    case 'auth.resend_verification':
    case 'auth.request_reset':
      return { email }
    case 'auth.login':
      return { email, password: PASSWORD }
    case 'auth.mfa_challenge':
      return { recovery_code: RECOVERY_CODE }
    case 'auth.step_up':
      return { password: PASSWORD }
    case 'auth.change_password':
      return { current_password: PASSWORD, new_password: `new ${PASSWORD}` }
    case 'auth.change_email':
      return { new_email: `new-${email}` }
    case 'auth.verify_email':
    case 'auth.confirm_email':
      return { token }
    case 'auth.confirm_reset':
      return { token, new_password: `new ${PASSWORD}` }
    case 'auth.confirm_totp':
      return { code }
    default:
      return {}
  }
}
