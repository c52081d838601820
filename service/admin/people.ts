import { parseArgs } from 'node:util'
import { AdminError, type Command, type Context, oneOf, organizationOf, required, UsageError, wholeNumber } from './command.ts'
import { newSessionToken } from './secrets.ts'
import { findPerson, insertPersonSession, insertPersonWithRole } from './store.ts'

const DAY_MS = 24 * 3600 * 1000
const SESSION_DAYS = '30'
const ROLES = ['owner', 'admin', 'member', 'billing'] as const

export const PERSON_COMMANDS: Record<string, Command> = {
  'person create': { synopsis: `--email EMAIL --organization SLUG --role ${ROLES.join('|')} [--name NAME]`, run: createPerson },
  'person session': { synopsis: `--email EMAIL [--expires-in-days ${SESSION_DAYS}] [--quiet]`, run: createSession },
}

/** Adds a role to somebody who is there already. */
async function createPerson(argv: string[], { db, output, clock, ids }: Context): Promise<void> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ args: argv, options: { email: text, organization: text, role: text, name: text } })
  const email = emailOf(values.email)
  const role = oneOf(required(values.role, '--role'), ROLES, '--role')
  const organization = await organizationOf(db, values.organization)
  const created_at = clock.now()
  // Whoever may run this vouches for the address.
  const person = { id: ids.next(), email, email_verified: true, display_name: values.name ?? null, created_at }
  output.line(await insertPersonWithRole(db, person, { organization_id: organization.id, role, created_at }))
}

async function createSession(argv: string[], { db, output, clock, ids }: Context): Promise<void> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ args: argv, options: { email: text, 'expires-in-days': text, quiet: { type: 'boolean' } } })
  const email = emailOf(values.email)
  const days = wholeNumber(values['expires-in-days'] ?? SESSION_DAYS, '--expires-in-days', 1)
  const person = await findPerson(db, email)
  if (person === undefined) throw new AdminError(`There is no person ${email}`)
  const now = clock.now()
  const { token, token_sha256 } = newSessionToken()
  const times = { created_at: now, last_used_at: now, expires_at: new Date(now.getTime() + days * DAY_MS), revoked_at: null }
  await insertPersonSession(db, { id: ids.next(), person_id: person.id, token_sha256, ...times })
  output.line(token)
  if (values.quiet !== true) output.note(`A session of ${email} for ${days} days. The token is shown this once.`)
}

function emailOf(value: string | undefined): string {
  const email = required(value, '--email').toLowerCase()
  if (!/^[^\s@]+@[^\s@]+$/.test(email) || email.length > 254) throw new UsageError('--email must be an address')
  return email
}
