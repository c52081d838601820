import { isDeepStrictEqual, parseArgs } from 'node:util'
import { latestVersion, publishVersion, readVersion } from '../core/templates/store.ts'
import { AdminError, type Command, type Context, organizationOf, required, slugOf, subjectOf, UsageError } from './command.ts'
import { checkSettings } from './template-settings.ts'
import { writeTemplateFile } from './template-files/export.ts'
import { readTemplateFile } from './template-files/import.ts'

export const TEMPLATE_FILE_COMMANDS: Record<string, Command> = {
  'template export': { synopsis: '--slug SLUG --output FILE [--version N] [--organization SLUG]', run: exportVersion },
  'template import': { synopsis: '--input FILE [--slug SLUG] [--organization SLUG]', run: importVersion },
}

const text = { type: 'string' } as const

async function exportVersion(argv: string[], context: Context): Promise<void> {
  const { db, output } = context
  const { values } = parseArgs({ args: argv, options: { slug: text, output: text, version: text, organization: text } })
  const slug = slugOf(values.slug, '--slug')
  const file = required(values.output, '--output')
  const organization_id = values.organization === undefined ? null : (await organizationOf(db, values.organization)).id
  const number = values.version === undefined ? undefined : numberOf(values.version)
  const found = number === undefined ? await latestVersion(db, organization_id, slug) : await readVersion(db, organization_id, slug, number)
  if (found === undefined) throw new AdminError(`There is no version ${number ?? 'that is published'} of the template ${slug}`)
  const { version, layered, layers, egress } = found
  const settings = checkSettings(found.settings, `${slug} version ${version}`)
  await writeTemplateFile(file, layersDir(context), { slug, version, layered, layers, settings, egress })
  output.line(`${slug} version ${version} is in ${file}`)
}

/** The version is written last: a killed import leaves no version, and a repeat continues. */
async function importVersion(argv: string[], context: Context): Promise<void> {
  const { db, output, change, ids, clock } = context
  const { values } = parseArgs({ args: argv, options: { input: text, slug: text, organization: text } })
  const input = required(values.input, '--input')
  const organization_id = values.organization === undefined ? null : (await organizationOf(db, values.organization)).id
  const { layers, settings, egress, layered, ...manifest } = await readTemplateFile(input, layersDir(context))
  const slug = values.slug === undefined ? manifest.slug : slugOf(values.slug, '--slug')
  const next = { organization_id, slug, layered, layers: layers.map(({ sha256 }) => sha256), settings, egress }
  const latest = await latestVersion(db, organization_id, slug)
  const is_there =
    latest !== undefined &&
    isDeepStrictEqual([latest.layers, latest.settings, latest.egress, latest.layered], [next.layers, settings, egress, layered])
  if (is_there) return output.line(`${slug} version ${latest.version}`)
  const { version } = await change(
    'template-versions.import',
    (tx) => publishVersion(tx, next, { ids, now: clock.now() }),
    (made) => subjectOf('template_version', made.id, organization_id === null ? {} : { organization_id }, { slug, version: made.version }),
  )
  output.line(`${slug} version ${version}`)
}

function numberOf(value: string): number {
  if (/^[1-9]\d{0,8}$/.test(value)) return Number(value)
  throw new UsageError('--version must be a number')
}

function layersDir({ layers_dir }: Context): string {
  if (layers_dir === undefined) throw new UsageError('Run this by `npm run admin`')
  return layers_dir
}
