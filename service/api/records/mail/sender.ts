import type { Logger } from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Mail } from '../../../core/people/mail/store.ts'
import { digestOf, type PersonSecrets } from '../../../core/people/person-secrets.ts'
import { periodOf } from '../../../core/money/usage/period.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { startPoller, type Poller } from '../../../lib/poll.ts'
import { letterOf, type MailMessage } from './letters.ts'
import { endMail, findAlert, findRecipient, giveEmailToken, giveInvitationToken, claimMail } from './store.ts'
import type { Transport } from './transports.ts'

export interface SenderDeps {
  db: Db
  clock: Clock
  logger: Logger
  secrets: PersonSecrets
  transport: Transport
  base_url: string
}

const LOOK_MS = 2000
const { send_seconds_max, retry_seconds_min, retry_seconds_max, try_hours_max } = LIMITS.mail
/** A claim lasts longer than a try, so no second process sends the mail. */
const TAKEN_MS = 3 * send_seconds_max * 1000

/** Several processes may run this worker, because each claims the rows that it sends. */
export function startSender(deps: SenderDeps): Poller {
  const looking = startPoller({
    every_ms: LOOK_MS,
    look: (stopped) => sendAll(deps, stopped),
    failed: (error) => deps.logger.warn({ err: error }, 'mail could not be read'),
  })
  return {
    poke: looking.poke,
    close() {
      const closed = looking.close()
      deps.transport.close()
      return closed
    },
  }
}

export async function sendAll(deps: SenderDeps, stopped: () => boolean = () => false): Promise<void> {
  while (!stopped()) {
    const now = deps.clock.now()
    const mail = await claimMail(deps.db, now, new Date(now.getTime() + TAKEN_MS))
    if (mail === undefined) return
    await sendOne(deps, mail)
  }
}

async function sendOne(deps: SenderDeps, mail: Mail): Promise<void> {
  const { db, clock, logger, transport } = deps
  try {
    const letter = await prepare(deps, mail)
    await failpoint('mail.M1')
    if (letter !== null) await transport.send(mail.id, letter)
    await failpoint('mail.M2')
    await endMail(db, mail, { sent_at: clock.now(), last_error: null })
  } catch (error) {
    const next = afterFailure(mail, clock.now(), error)
    logger.warn(
      { err: error, mail_id: mail.id, kind: mail.kind, tries: mail.tries, given_up: 'given_up_at' in next },
      'a mail was not sent',
    )
    await endMail(db, mail, next)
  }
}

/** A mail whose recipient the server rejects is not tried again. */
function afterFailure({ tries, created_at }: Mail, now: Date, error: unknown) {
  const { code, responseCode = 0, message } = error as { code?: string; responseCode?: number; message?: string }
  const last_error = (message ?? '').slice(0, 500)
  const is_refused = code === 'EENVELOPE' && responseCode >= 550 && responseCode < 560
  if (is_refused || now.getTime() - created_at.getTime() > try_hours_max * 3600_000) return { given_up_at: now, last_error }
  const seconds = Math.min(retry_seconds_max, retry_seconds_min * 2 ** Math.min(tries - 1, 12))
  return { next_try_at: new Date(now.getTime() + seconds * 1000), last_error }
}

/** null: nothing to send. */
async function prepare({ db, clock, secrets, base_url }: SenderDeps, mail: Mail): Promise<MailMessage | null> {
  const token = secrets.tokenOf(mail.id)
  const token_sha256 = digestOf(token)
  const now = clock.now()
  const { kind, email } = mail
  const give = async (person_id: string, purpose: 'verify_email' | 'reset_password' | 'change_email', minutes: number) => {
    const expires_at = new Date(now.getTime() + minutes * 60_000)
    await giveEmailToken(db, { token_sha256, person_id, purpose, email, created_at: now, expires_at })
    return letterOf(kind, email, { base_url, token })
  }
  switch (kind) {
    case 'verify_email': {
      const person = await findRecipient(db, email)
      return person === undefined || person.email_verified ? null : give(person.id, kind, LIMITS.sign_in.verify_hours * 60)
    }
    case 'reset_password': {
      const person = await findRecipient(db, email)
      return person === undefined ? null : give(person.id, kind, LIMITS.sign_in.reset_minutes)
    }
    case 'change_email': {
      const is_taken = (await findRecipient(db, email)) !== undefined
      return is_taken || mail.person_id === null ? null : give(mail.person_id, kind, LIMITS.sign_in.verify_hours * 60)
    }
    case 'invitation': {
      const given = mail.invitation_id === null ? undefined : await giveInvitationToken(db, mail.invitation_id, token_sha256, now)
      return given === undefined ? null : letterOf(kind, email, { base_url, token, ...given })
    }
    case 'spend_alert': {
      const alert = mail.spend_alert_id === null ? undefined : await findAlert(db, mail.spend_alert_id)
      if (alert === undefined) return null
      const { organization, period_starts_at, ...said } = alert
      return letterOf(kind, email, { base_url, organization, alert: { ...said, resets_at: periodOf(period_starts_at).ends_at } })
    }
    case 'already_registered':
    case 'password_changed':
    case 'email_changed':
    case 'mfa_enabled':
    case 'mfa_disabled':
    case 'account_deleted':
      return letterOf(kind, email, { base_url })
  }
}
