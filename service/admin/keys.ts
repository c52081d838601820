import { parseArgs } from 'node:util'
import { TOOLS } from '../../contract/route.ts'
import { findApiKey, insertApiKey, listApiKeys, revokeApiKey, setApiKeyTools } from '../core/keys/store.ts'
import {
  AdminError,
  type Command,
  type Context,
  organizationOf,
  projectOf,
  show,
  subjectOf,
  toolsOf,
  wholeNumber,
  words,
} from './command.ts'
import { newApiKey } from '../core/keys/new-credentials.ts'

const DAY_MS = 24 * 3600 * 1000

export const KEY_COMMANDS: Record<string, Command> = {
  'key create': {
    synopsis: `--organization SLUG --project SLUG --tools ${TOOLS.join(',')} [--name NAME] [--expires-in-days N] [--quiet]`,
    run: createKey,
  },
  'key list': { synopsis: '[--json]', run: showKeys },
  'key revoke': { synopsis: 'KEY_ID', revokes: true, run: revokeKey },
  'key tools': { synopsis: 'KEY_ID --tools LIST', revokes: true, run: setTools },
}

async function createKey(argv: string[], { db, output, clock, ids, change }: Context): Promise<void> {
  const text = { type: 'string' } as const
  const options = {
    organization: text,
    project: text,
    tools: text,
    name: text,
    'expires-in-days': text,
    quiet: { type: 'boolean' },
  } as const
  const { values } = parseArgs({ args: argv, options })
  const tool_permissions = toolsOf(values.tools)
  const days = values['expires-in-days']
  const now = clock.now()
  const expires_at = days === undefined ? null : new Date(now.getTime() + wholeNumber(days, '--expires-in-days', 1) * DAY_MS)
  const organization = await organizationOf(db, values.organization)
  const project = await projectOf(db, organization.id, values.project)
  const { key_id, api_key, secret_sha256 } = newApiKey()
  const owner = { organization_id: organization.id, project_id: project.id, name: values.name ?? '' }
  const times = { created_at: now, expires_at, revoked_at: null, tools_changed_at: null }
  const id = ids.next()
  await change(
    'api-keys.create',
    (tx) => insertApiKey(tx, { id, key_id, secret_sha256, ...owner, tool_permissions, ...times }),
    subjectOf('api_key', id, owner, { key_id, tool_permissions }),
  )
  output.line(api_key)
  if (values.quiet !== true) output.note(`Key ${key_id} may use ${tool_permissions.join(', ')}. It is shown this once.`)
}

async function showKeys(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  show(output, await listApiKeys(db), values.json)
}

async function revokeKey(argv: string[], { db, output, clock, change }: Context): Promise<void> {
  const { key_id } = words(parseArgs({ args: argv, allowPositionals: true, options: {} }).positionals, 'key_id')
  const revoked = await change(
    'api-keys.delete',
    (tx) => revokeApiKey(tx, key_id, clock.now()),
    (key) => (key === undefined ? null : subjectOf('api_key', key.id, key, { key_id })),
  )
  if (revoked === undefined) await explainUnrevoked(db, key_id)
  output.note(`Key ${key_id} is revoked`)
}

/** A second revocation succeeds; only an unknown key is an error. */
async function explainUnrevoked(db: Context['db'], key_id: string): Promise<void> {
  if ((await findApiKey(db, key_id)) === undefined) throw new AdminError(`There is no key ${key_id}`)
}

async function setTools(argv: string[], { db, output, clock, change }: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: { tools: { type: 'string' } } })
  const { key_id } = words(positionals, 'key_id')
  const tool_permissions = toolsOf(values.tools)
  const key = await findApiKey(db, key_id)
  if (key === undefined) throw new AdminError(`There is no key ${key_id}`)
  // Only lost permissions invalidate the key's tool tokens.
  const narrowed = key.tool_permissions.some((tool) => !tool_permissions.some((kept) => kept === tool))
  await change(
    'api-keys.update',
    (tx) => setApiKeyTools(tx, key_id, { tool_permissions, ...(narrowed ? { tools_changed_at: clock.now() } : {}) }),
    subjectOf('api_key', key.id, key, { key_id, tool_permissions }),
  )
  output.note(`Key ${key_id} may use ${tool_permissions.join(', ')}`)
}
