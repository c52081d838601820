import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { normalPolicy, policyIssues } from '../../contract/egress/check.ts'
import type { EgressPolicy, EgressPolicyInput } from '../../contract/egress/policy.ts'
import type { TemplateSettings } from '../../contract/schemas/template-settings.ts'
import { latestVersion, listVersions, publishVersion } from '../core/templates/store.ts'
import { AdminError, type Command, type Context, oneOf, organizationOf, required, show, slugOf, subjectOf, UsageError } from './command.ts'
import { checkSettings } from './template-settings.ts'
import { touchLayers } from './touch-layers.ts'

export const TEMPLATE_COMMANDS: Record<string, Command> = {
  'template list': { synopsis: '[--json]', run: showTemplates },
  'template publish': {
    synopsis:
      '--slug SLUG --settings FILE [--layers-from SLUG | --layers DIGEST,…] [--organization SLUG] [--layered true|false] [--egress FILE|none]',
    run: publish,
  },
}

async function showTemplates(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  const versions = await listVersions(db)
  if (values.json === true) return show(output, versions, true)
  const brief = versions.map(({ layers, settings: _, ...version }) => ({ ...version, layers: layers.map((digest) => digest.slice(0, 12)) }))
  show(output, brief, false)
}

async function publish(argv: string[], { db, output, clock, ids, change, layers_dir }: Context): Promise<void> {
  const text = { type: 'string' } as const
  const options = {
    slug: text,
    settings: text,
    'layers-from': text,
    layers: text,
    organization: text,
    layered: text,
    egress: text,
  } as const
  const { values } = parseArgs({ args: argv, options })
  const slug = slugOf(values.slug, '--slug')
  const settings = await readSettings(required(values.settings, '--settings'))
  const layered = values.layered === undefined ? undefined : oneOf(values.layered, ['true', 'false'], '--layered') === 'true'
  const organization_id = values.organization === undefined ? null : (await organizationOf(db, values.organization)).id
  const given = values.layers === undefined ? null : { layers: digestsOf(values.layers), layered: true }
  const base = given ?? (await layersFrom(db, organization_id, slug, values['layers-from']))
  const own = await latestVersion(db, organization_id, slug)
  if (given !== null && layers_dir !== undefined) await touchLayers(layers_dir, given.layers)
  // A new version must not allow more egress by omission, so the ceiling is copied until an operator removes it.
  const egress = values.egress === undefined ? (own?.egress ?? null) : await readEgress(values.egress)
  const next = { organization_id, slug, layered: layered ?? base.layered, layers: base.layers, settings, egress }
  // Programs, which pass layers, may run twice: an equal version is not published again.
  const latest = given === null ? undefined : own
  if (latest !== undefined && isDeepStrictEqual([latest.layers, latest.settings, latest.egress], [next.layers, next.settings, egress])) {
    return output.line(`${slug} version ${latest.version}`)
  }
  const owner = organization_id === null ? {} : { organization_id }
  const { version } = await change(
    'template-versions.publish',
    (tx) => publishVersion(tx, next, { ids, now: clock.now() }),
    (made) => subjectOf('template_version', made.id, owner, { slug, version: made.version }),
  )
  output.line(`${slug} version ${version}`)
}

function digestsOf(text: string): string[] {
  const digests = text.split(',')
  if (digests.length <= 32 && digests.every((each) => /^[0-9a-f]{64}$/.test(each))) return digests
  throw new UsageError('--layers must be 1 to 32 SHA-256 digests in hex, separated by commas')
}

async function readSettings(path: string): Promise<TemplateSettings> {
  const content = await readJson(path)
  try {
    return checkSettings(content, path)
  } catch (error) {
    throw new AdminError((error as Error).message)
  }
}

async function readEgress(path: string): Promise<EgressPolicy | null> {
  if (path === 'none') return null
  const content = await readJson(path)
  const issues = policyIssues(content)
  if (issues.length === 0) return normalPolicy(content as EgressPolicyInput)
  throw new AdminError(`${path} is no egress policy:\n${issues.map((issue) => `- ${issue.path} ${issue.message}`).join('\n')}`)
}

async function readJson(path: string): Promise<unknown> {
  const content = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new UsageError(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  })
  try {
    return JSON.parse(content)
  } catch (error) {
    throw new AdminError(`${path} is not JSON: ${(error as Error).message}`)
  }
}

async function layersFrom(db: Context['db'], organization_id: string | null, slug: string, named: string | undefined) {
  for (const name of named === undefined ? [slug, 'base'] : [named]) {
    const own = organization_id === null ? undefined : await latestVersion(db, organization_id, name)
    const found = own ?? (await latestVersion(db, null, name))
    if (found !== undefined) return found
  }
  throw new AdminError(`There is no template ${named ?? 'base'} to take layers from`)
}
