import { readFileSync } from 'node:fs'
import type { wire } from '../../sdk/typescript/src/main.ts'
import { type CliCommand, type Context, usageError } from './command.ts'
import { readProfiles, writeProfile } from './profile.ts'
import { stepUp } from './step-up.ts'

type Shown = readonly [value: unknown, columns?: readonly string[]]

const command = (
  name: string,
  takes: string,
  does: string,
  words: readonly [number, number],
  run: (context: Context, words: readonly string[]) => Promise<Shown | undefined>,
  flags?: CliCommand['flags'],
): CliCommand => ({
  name,
  takes,
  does,
  words,
  ...(flags ? { flags } : {}),
  async run(context, given) {
    const shown = await run(context, given)
    if (shown) context.print(...shown)
    return 0
  },
})

/** From stdin, because every user of the computer can see arguments. */
function valueFromStdin(what: string): string {
  if (process.stdin.isTTY) process.stderr.write(`${what}, then Ctrl-D:\n`)
  const value = readFileSync(0, 'utf8').replace(/\r?\n$/, '')
  if (value === '') throw usageError(`${what} is read from standard input, and there is none`)
  return value
}

/** `HOST` (bearer token) or `HOST:HEADER`. */
function hostOf(text: string): SecretHost {
  const [host = '', header] = text.split(':')
  return header === undefined ? { host, bearer: true } : { host, header }
}
type SecretHost = NonNullable<wire.SecretCreate['hosts']>[number]

const SECRET_COLUMNS = ['name', 'id', 'allowed_tools', 'created_at']
const idOfSecret = async ({ berth }: Context, name: string) => {
  for await (const secret of berth().secrets.list()) if (secret.name === name || secret.id === name) return secret.id
  throw usageError(`There is no secret ${name}`, 'berth secrets list')
}
const idOfVolume = async ({ berth }: Context, name: string) => {
  for await (const volume of berth().volumes.list({ include_org_shared: true }))
    if (volume.name === name || volume.id === name) return volume.id
  throw usageError(`There is no volume ${name}`, 'berth volumes list')
}
const parsed = (text: string): never => {
  try {
    return JSON.parse(text) as never
  } catch {
    throw usageError(`This is no JSON: ${text.slice(0, 100)}`)
  }
}

export const NOUNS: CliCommand[] = [
  command(
    'login',
    '',
    'keep a key in a profile; it is read from standard input, or from BERTH_API_KEY',
    [0, 0],
    async ({ flags, profile, say }) => {
      const api_key = process.env['BERTH_API_KEY'] || valueFromStdin('The API key')
      const url = typeof flags['url'] === 'string' ? flags['url'] : process.env['BERTH_URL'] || 'http://127.0.0.1:8080'
      const { project, organization } = flags as { project?: string; organization?: string }
      const meant = { ...(project ? { project } : {}), ...(organization ? { organization } : {}) }
      say(`Profile ${profile} is in ${writeProfile(profile, { url, api_key, ...meant })}`)
      return undefined
    },
  ),
  command(
    'step-up',
    '',
    "confirm the password of a person's session: for 10 minutes sensitive actions, such as `berth keys create`, are allowed",
    [0, 0],
    stepUp,
    { 'password-stdin': { type: 'boolean', says: 'read the password from standard input' } },
  ),
  command('profiles', '', 'list profiles', [0, 0], async () => [
    Object.entries(readProfiles()).map(([name, { url }]) => ({ name, url })),
    ['name', 'url'],
  ]),
  command('me', '', 'who the key is', [0, 0], async ({ berth }) => [await berth().me()]),
  command('secrets list', '', 'list secrets', [0, 0], async ({ berth }) => [await berth().secrets.list().all(), SECRET_COLUMNS]),
  command(
    'secrets create',
    'NAME',
    'make a secret; its value is read from standard input; with --host no workspace ever has it: requests to that host do',
    [1, 1],
    async ({ berth, flags }, [name = '']) => {
      const hosts = (flags['host'] as unknown as string[] | undefined)?.map(hostOf)
      return [await berth().secrets.create({ name, value: valueFromStdin('The value'), ...(hosts ? { hosts } : {}) }), SECRET_COLUMNS]
    },
    {
      host: {
        type: 'string',
        multiple: true,
        value: 'HOST[:HEADER]',
        says: 'HOST whose requests get the value as a bearer token, or HOST:HEADER; may be given several times',
      },
    },
  ),
  command('secrets rotate', 'NAME', 'give it a new value, from standard input', [1, 1], async (context, [name = '']) => [
    await context.berth().secrets.rotate(await idOfSecret(context, name), valueFromStdin('The value')),
  ]),
  command(
    'secrets delete',
    'NAME',
    'erase it',
    [1, 1],
    async (context, [name = '']) => void (await context.berth().secrets.delete(await idOfSecret(context, name))),
  ),
  command(
    'secrets bind',
    'WORKSPACE [NAME …]',
    'the secrets that a workspace has; no name: none',
    [1, 51],
    async ({ workspace }, [name = '', ...names]) => [await (await workspace(name)).secrets.set(names)],
  ),
  command('egress get', '[WORKSPACE]', 'what the project, or a workspace, may reach', [0, 1], async ({ berth, workspace }, [name]) => [
    name === undefined ? await berth().egress.get() : await (await workspace(name)).egress.get(),
  ]),
  command('egress set', 'POLICY_JSON [WORKSPACE]', 'change it', [1, 2], async ({ berth, workspace }, [policy = '', name]) => [
    name === undefined ? await berth().egress.set(parsed(policy)) : await (await workspace(name)).egress.set(parsed(policy)),
  ]),
  command('egress denials', 'WORKSPACE', 'what it was refused', [1, 1], async ({ workspace }, [name = '']) => [
    (await (await workspace(name)).egress.denials()).data,
    ['name', 'address', 'port', 'protocol', 'count', 'last_at'],
  ]),
  command('volumes list', '', 'list volumes', [0, 0], async ({ berth }) => [
    await berth().volumes.list({ include_org_shared: true }).all(),
    ['name', 'state', 'quota_gib', 'id'],
  ]),
  command('volumes create', 'NAME GIB', 'make a volume', [2, 2], async ({ berth }, [name = '', gib]) => [
    await berth().volumes.create({ name, quota_gib: Number(gib) }),
  ]),
  command(
    'volumes delete',
    'NAME',
    'delete it with what is on it',
    [1, 1],
    async (context, [name = '']) => void (await context.berth().volumes.delete(await idOfVolume(context, name))),
  ),
  command(
    'volumes attach',
    'NAME WORKSPACE PATH',
    'attach it',
    [3, 3],
    async (context, [name = '', ws = '', mount_path = '']) => {
      const at = { mount_path, ...(context.flags['read-only'] === true ? { mode: 'read_only' as const } : {}) }
      return [(await (await context.workspace(ws)).volumes.attach(await idOfVolume(context, name), at)).attachment]
    },
    { 'read-only': { type: 'boolean', says: 'the workspace may read the volume and not write to it' } },
  ),
  command('volumes detach', 'NAME WORKSPACE', 'detach it', [2, 2], async (context, [name = '', ws = '']) => [
    (await (await context.workspace(ws)).volumes.detach(await idOfVolume(context, name))).attachment,
  ]),
  command('templates list', '', 'list templates', [0, 0], async ({ berth }) => [
    await berth().templates.list().all(),
    ['slug', 'latest_version', 'id'],
  ]),
  command('templates versions', 'SLUG', 'list the versions of one', [1, 1], async ({ berth }, [slug = '']) => [
    await berth().templates.versions(slug).all(),
    ['version', 'published_at', 'archived_at'],
  ]),
  command('templates publish', 'SLUG VERSION', 'publish a version', [2, 2], async ({ berth }, [slug = '', version]) => [
    await berth().templates.publish(slug, Number(version)),
  ]),
  command('usage', '[WORKSPACE]', 'usage of the period, or of a workspace', [0, 1], async ({ berth, workspace, json }, [name]) => {
    if (name === undefined) return [await berth().usage.summary()]
    const usage = await (await workspace(name)).usage()
    return json ? [usage] : [{ from: usage.from, to: usage.to, ...usage.totals }]
  }),
  command('members', '', "list the organization's people (a person's session)", [0, 0], async ({ berth }) => [
    await berth().members.list().all(),
    ['email', 'role', 'person_id'],
  ]),
  command('keys list', '', "list the project's API keys (a person's session)", [0, 0], async ({ berth }) => [
    await berth().keys.list().all(),
    ['name', 'id', 'tool_permissions', 'last_used_at'],
  ]),
  command(
    'keys create',
    'NAME [TOOL …]',
    "make a key, shown once (a person's session)",
    [1, 7],
    async ({ berth }, [name = '', ...tools]) => [
      await berth().keys.create({ name, tool_permissions: (tools.length > 0 ? tools : ['exec', 'files']) as never }),
    ],
  ),
  command(
    'keys revoke',
    'ID',
    "revoke a key (a person's session)",
    [1, 1],
    async ({ berth }, [id = '']) => void (await berth().keys.revoke(id)),
  ),
  command(
    'api',
    'METHOD PATH [JSON]',
    'call any route of the application API',
    [2, 3],
    async ({ berth, json }, [method = '', path = '', body]) => {
      const answer = (await berth().api(method.toUpperCase(), path, body === undefined ? {} : { json: parsed(body) })) ?? {}
      // A program that reads stdout needs the service's JSON, not a table.
      return [json || process.stdout.isTTY ? answer : JSON.stringify(answer)]
    },
  ),
]
