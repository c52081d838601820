import { parseArgs } from 'node:util'
import { ALLOWANCE_NAMES, METER_UNITS } from '../../contract/schemas/spend.ts'
import { insertGrant, listAllGrants, revokeGrant } from '../core/money/usage/grants-admin-store.ts'
import {
  AdminError,
  type Command,
  type Context,
  idOf,
  momentOf,
  oneOf,
  organizationOf,
  show,
  subjectOf,
  UsageError,
  wholeNumber,
  words,
} from './command.ts'

export const GRANT_COMMANDS: Record<string, Command> = {
  'grant create': { synopsis: `ORGANIZATION ${ALLOWANCE_NAMES.join('|')} HOURS [--expires-at TIME] [--note TEXT]`, run: createGrant },
  'grant list': { synopsis: 'ORGANIZATION [--json]', run: showGrants },
  'grant revoke': { synopsis: 'GRANT', run: endGrant },
}

const text = { type: 'string' } as const
const NOTE_CHARACTERS_MAX = 200

async function createGrant(argv: string[], { db, output, clock, ids, change }: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: { 'expires-at': text, note: text } })
  const { organization, allowance: named, hours } = words(positionals, 'organization', 'allowance', 'hours')
  const allowance = oneOf(named, ALLOWANCE_NAMES, 'ALLOWANCE')
  const granted_meter_units = wholeNumber(hours, 'HOURS', 1) * METER_UNITS
  const created_at = clock.now()
  const expires_at = values['expires-at'] === undefined ? null : momentOf(values['expires-at'], '--expires-at')
  if (expires_at !== null && expires_at <= created_at) throw new UsageError('--expires-at is over')
  const { note = '' } = values
  if (note.length > NOTE_CHARACTERS_MAX) throw new UsageError(`--note has ${NOTE_CHARACTERS_MAX} characters at most`)
  const { id: organization_id } = await organizationOf(db, organization)
  const id = ids.next()
  const row = { id, organization_id, allowance, granted_meter_units, note, created_at, expires_at, revoked_at: null }
  const details = { grant_id: id, allowance, hours: Number(hours), expires_at: expires_at?.toISOString() ?? null }
  await change('grants.create', (tx) => insertGrant(tx, row), subjectOf('organization', organization_id, { organization_id }, details))
  output.line(id)
}

async function showGrants(argv: string[], { db, output }: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: { json: { type: 'boolean' } } })
  const { id } = await organizationOf(db, words(positionals, 'organization').organization)
  show(output, await listAllGrants(db, id), values.json)
}

/** Credit that was used remains used. */
async function endGrant(argv: string[], { clock, output, change }: Context): Promise<void> {
  const grant = idOf(words(parseArgs({ args: argv, allowPositionals: true, options: {} }).positionals, 'grant').grant, 'GRANT')
  await change(
    'grants.revoke',
    async (tx) => {
      const organization_id = await revokeGrant(tx, grant, clock.now())
      if (organization_id === undefined) throw new AdminError(`There is no grant ${grant} that is in force`)
      return organization_id
    },
    (organization_id) => subjectOf('organization', organization_id, { organization_id }, { grant_id: grant }),
  )
  output.note(`Grant ${grant} is revoked`)
}
