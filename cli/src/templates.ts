import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, openAsBlob } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import type { wire, Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type Context, type Run, usageError } from './command.ts'
import { follow } from './exec.ts'
import { escapeLines } from './print.ts'
import { during, progressOf } from './progress.ts'

const RECIPES = ['recipe.json', 'Dockerfile']

export const buildTemplate: Run = async (context, [slug = '', folder = '.']) => {
  const { templates } = context.berth()
  const recipe = await recipeOf(context, folder)
  const upload_id = await uploadOf(context, folder, recipe.file)
  const { description, publish } = context.flags
  const begun = await templates.build(slug, {
    ...recipe.request,
    ...(upload_id === null ? {} : { upload_id }),
    ...(typeof description === 'string' ? { description } : {}),
    ...(publish === true ? { auto_publish: true } : {}),
  })
  const again = () => `berth templates publish ${slug} VERSION`
  return followBuild(context, begun.id, { is_to_publish: publish === true, again })
}

export const testTemplate: Run = async (context, [slug = '', version]) =>
  tried(context, await context.berth().templates.test(slug, Number(version)))

export async function tried({ rest, print }: Context, ws: Workspace): Promise<number> {
  if (rest.length === 0) {
    print(ws.view, ['key', 'observed_state', 'template.slug', 'template.version', 'id'])
    return 0
  }
  try {
    return await follow(await ws.start(rest))
  } finally {
    await ws.close({ wait: false })
  }
}

export async function followBuild(context: Context, build_id: string, asked: Publishing): Promise<number> {
  const { templates } = context.berth()
  // With --json stdout has only the build: the log goes to stderr.
  const out = context.json ? process.stderr : process.stdout
  for await (const text of templates.buildLog(build_id)) out.write(escapeLines(text))
  return ended(context, await templates.waitForBuild(build_id), asked)
}

interface Publishing {
  is_to_publish: boolean
  again(paths: readonly string[]): string
}

interface RecipeFile {
  /** null: the recipe is not in the folder that is uploaded. */
  file: string | null
  request: Pick<wire.TemplateBuildRequest, 'recipe' | 'dockerfile' | 'build_args'>
}

async function recipeOf({ flags }: Context, folder: string): Promise<RecipeFile> {
  const names = await readdir(folder).catch(() => {
    throw new CliError(`${folder} is no folder`)
  })
  const file = flags['file'] as string | undefined
  const found = RECIPES.find((name) => names.includes(name))
  if (file === undefined && found === undefined)
    throw new CliError(`${folder} has neither ${RECIPES.join(' nor ')}`, { next: 'berth templates build SLUG FOLDER --file RECIPE' })
  const place = file ?? path.join(folder, found ?? '')
  const text = await readFile(place, 'utf8')
  const inside = path.relative(folder, place)
  const named = { file: inside.startsWith('..') ? null : inside }
  const build_args = Object.fromEntries(((flags['build-arg'] as unknown as string[] | undefined) ?? []).map(pairOf))
  if (!place.endsWith('.json'))
    return { ...named, request: { dockerfile: text, ...(Object.keys(build_args).length > 0 ? { build_args } : {}) } }
  if (Object.keys(build_args).length > 0) throw usageError('--build-arg is for a Dockerfile')
  try {
    return { ...named, request: { recipe: JSON.parse(text) as wire.Recipe } }
  } catch (cause) {
    throw new CliError(`${place} is no JSON: ${(cause as Error).message}`)
  }
}

function pairOf(text: string): [string, string] {
  const at = text.indexOf('=')
  if (at < 1) throw usageError(`--build-arg takes NAME=VALUE, not ${text}`)
  return [text.slice(0, at), text.slice(at + 1)]
}

/** @returns null: the folder has nothing but the recipe. */
async function uploadOf({ berth, json }: Context, folder: string, recipe: string | null): Promise<string | null> {
  const names = (await readdir(folder)).filter((name) => name !== recipe)
  if (names.length === 0) return null
  const made = await mkdtemp(path.join(tmpdir(), 'berth-build-'))
  try {
    const tar = path.join(made, 'context.tar.gz')
    const left_out = recipe === null ? [] : [`--exclude=./${recipe}`, '--no-wildcards']
    await promisify(execFile)('tar', ['-C', folder, ...left_out.toReversed(), '-czf', tar, '.'])
    const hash = createHash('sha256')
    await pipeline(createReadStream(tar), hash)
    const { size } = await stat(tar)
    let seen = 0
    const { id } = await during(progressOf(folder, size, { json }), async (progress) =>
      berth().templates.upload(await openAsBlob(tar), {
        sha256: hash.digest('hex'),
        onProgress(received) {
          progress.add(received - seen)
          seen = received
        },
      }),
    )
    return id
  } finally {
    await rm(made, { recursive: true })
  }
}

function ended({ json, print, say }: Context, build: wire.TemplateBuild, asked: Publishing): number {
  if (json) print(build)
  const { state, error, template_slug, version, published } = build
  if (state !== 'succeeded') {
    say(`The build ${state}${error === null ? '' : `: ${error.message} [${error.code}]`}`)
    return 1
  }
  const named = `${template_slug}@${version ?? '?'}`
  if (!json) say(published ? `${named} is published` : `${named} is there; try it: berth templates test ${template_slug} ${version ?? ''}`)
  if (published || build.scan_findings.length === 0) return 0
  for (const { path: at, rule, line } of build.scan_findings) say(`${at}:${line} looks like ${rule}`)
  if (!asked.is_to_publish) return 0
  const paths = [...new Set(build.scan_findings.map(({ path: at }) => at))]
  say(`${named} is not published. Remove the secrets, or publish it all the same: ${asked.again(paths)}`)
  return 1
}
