import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import type { ChangeTx } from '../core/changes/mutate.ts'
import { countOwners, lockOrganization, roleIn } from '../core/people/members/store.ts'
import { normalizeEmail } from '../core/people/email.ts'
import { insertEmailToken } from '../core/people/email-tokens-store.ts'
import { digestOf } from '../core/people/person-secrets.ts'
import { isUuid } from '../lib/ids.ts'
import { findPerson, insertPersonSession, insertPersonWithRole, listPersonSessions, revokePersonSessions } from '../core/people/store.ts'
import {
  AdminError,
  type Command,
  type Context,
  oneOf,
  organizationOf,
  required,
  show,
  subjectOf,
  UsageError,
  wholeNumber,
} from './command.ts'
import { newSessionToken } from '../core/keys/new-credentials.ts'

const TOKEN_BYTES = 32
const LINK_DAYS = 7
const DAY_MS = 24 * 3600 * 1000
/** Upper bound of a session's life (App, "Authentication" 2). A session also ends 30 days after its last use. */
const SESSION_DAYS_MAX = 90
const ROLES = ['owner', 'admin', 'member', 'billing'] as const

export const PERSON_COMMANDS: Record<string, Command> = {
  'person create': {
    synopsis: `--email EMAIL --organization SLUG --role ${ROLES.join('|')} [--name NAME]`,
    revokes: true,
    run: createPerson,
  },
  'person link': { synopsis: '--email EMAIL [--quiet]', run: printLink },
  'session create': { synopsis: `--email EMAIL [--expires-in-days ${SESSION_DAYS_MAX}] [--quiet]`, run: createSession },
  'session list': { synopsis: '--email EMAIL [--json]', run: showSessions },
  'session revoke': { synopsis: '--email EMAIL [--id SESSION_ID]', revokes: true, run: revokeSessions },
}

async function createPerson(argv: string[], { db, output, clock, ids, change }: Context): Promise<void> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ args: argv, options: { email: text, organization: text, role: text, name: text } })
  const email = emailOf(values.email)
  const role = oneOf(required(values.role, '--role'), ROLES, '--role')
  const organization = await organizationOf(db, values.organization)
  const created_at = clock.now()
  // The address counts as verified, because an operator enters it.
  const person = { id: ids.next(), email, email_verified: true, display_name: values.name ?? null, created_at }
  const organization_id = organization.id
  const person_id = await change(
    'members.create',
    async (tx) => {
      await refuseLastOwner(tx, organization_id, email, role)
      return insertPersonWithRole(tx, person, { organization_id, role, created_at })
    },
    (id) => subjectOf('person', id, { organization_id }, { role }),
  )
  output.line(person_id)
}

async function refuseLastOwner(tx: ChangeTx, organization_id: string, email: string, role: (typeof ROLES)[number]): Promise<void> {
  await lockOrganization(tx, organization_id)
  const person = await findPerson(tx, email)
  if (role === 'owner' || person === undefined || (await roleIn(tx, organization_id, person.id)) !== 'owner') return
  if ((await countOwners(tx, organization_id)) < 2) throw new AdminError('They are the last owner: make another one first')
}

async function printLink(argv: string[], { db, output, clock, change, base_url }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { email: { type: 'string' }, quiet: { type: 'boolean' } } })
  const { id: person_id, email } = await personOf(db, emailOf(values.email))
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const created_at = clock.now()
  const times = { created_at, expires_at: new Date(created_at.getTime() + LINK_DAYS * DAY_MS) }
  await change(
    'auth.request_reset',
    (tx) => insertEmailToken(tx, { token_sha256: digestOf(token), person_id, purpose: 'reset_password', email, ...times }),
    subjectOf('person', person_id),
  )
  output.line(`${base_url ?? ''}/reset-password#token=${token}`)
  if (values.quiet === true) return
  output.note(`By this link ${email} sets a password, once and within ${LINK_DAYS} days: the token is posted to`)
  output.note(`/v1/auth/password/reset/confirm as {"token": "…", "new_password": "…"}.`)
}

async function createSession(argv: string[], { db, output, clock, ids, change }: Context): Promise<void> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ args: argv, options: { email: text, 'expires-in-days': text, quiet: { type: 'boolean' } } })
  const email = emailOf(values.email)
  const days = wholeNumber(values['expires-in-days'] ?? String(SESSION_DAYS_MAX), '--expires-in-days', 1)
  if (days > SESSION_DAYS_MAX) throw new UsageError(`--expires-in-days must be ${SESSION_DAYS_MAX} at most`)
  const person = await personOf(db, email)
  const now = clock.now()
  const { token, token_sha256 } = newSessionToken()
  const times = { created_at: now, last_used_at: now, expires_at: new Date(now.getTime() + days * DAY_MS), revoked_at: null }
  const id = ids.next()
  await change(
    'sessions.create',
    (tx) => insertPersonSession(tx, { id, person_id: person.id, token_sha256, ...times }),
    subjectOf('session', id, {}, { person_id: person.id, days }),
  )
  output.line(token)
  if (values.quiet !== true) output.note(`A session of ${email} for ${days} days, 30 from its last use. The token is shown this once.`)
}

async function showSessions(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { email: { type: 'string' }, json: { type: 'boolean' } } })
  const person = await personOf(db, emailOf(values.email))
  show(output, await listPersonSessions(db, person.id), values.json)
}

async function revokeSessions(argv: string[], { db, output, clock, change }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { email: { type: 'string' }, id: { type: 'string' } } })
  if (values.id !== undefined && !isUuid(values.id)) throw new UsageError('--id must be the id of a session')
  const person = await personOf(db, emailOf(values.email))
  const ended = await change(
    'auth.end_session',
    (tx) => revokePersonSessions(tx, person.id, values.id, clock.now()),
    (count) => (count === 0 ? null : subjectOf('person', person.id, {}, { sessions: count })),
  )
  output.note(ended === 1 ? '1 session ended' : `${ended} sessions ended`)
}

async function personOf(db: Context['db'], email: string) {
  const person = await findPerson(db, email)
  if (person === undefined) throw new AdminError(`There is no person ${email}`)
  return person
}

function emailOf(value: string | undefined): string {
  const email = normalizeEmail(required(value, '--email'))
  if (email === null) throw new UsageError('--email must be an address')
  return email
}
