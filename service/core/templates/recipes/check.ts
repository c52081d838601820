import { normalHost } from '../../../../contract/egress/hosts.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { RecipeReason } from '../../../../contract/recipes/reasons.ts'
import type { Issue } from '../../../../contract/schemas/error.ts'
import type { BuildEgress, Recipe, RecipeFile } from '../../../../contract/schemas/recipes.ts'
import { findLanguage, LANGUAGES } from '../../../../contract/recipes/languages.ts'

export type RecipeIssue = Issue & { reason: RecipeReason }

/** Problems that need the database are checked elsewhere. */
export function recipeIssues(recipe: Recipe, has_upload: boolean): RecipeIssue[] {
  const { base, files = [], steps = [], packages = [], egress } = recipe
  const { files_max, steps_max, packages_max, recipe_bytes_max } = LIMITS.build
  return [
    ...(Buffer.byteLength(JSON.stringify(recipe)) > recipe_bytes_max
      ? [issue('', 'recipe_too_large', `must not have more than ${recipe_bytes_max} bytes`)]
      : []),
    ...(base === undefined ? [issue('base', 'base_required', 'is required')] : baseIssues(base)),
    ...(packages.length > packages_max ? [issue('packages', 'invalid_package', `must not have more than ${packages_max}`)] : []),
    ...packages.slice(0, packages_max).flatMap((name, at) => packageIssues(`packages.${at}`, name)),
    ...languageIssues(recipe),
    ...(files.length > files_max ? [issue('files', 'too_many_files', `must not have more than ${files_max}`)] : []),
    ...files.slice(0, files_max).flatMap((file, at) => fileIssues(`files.${at}`, file)),
    ...(steps.length > steps_max ? [issue('steps', 'too_many_steps', `must not have more than ${steps_max}`)] : []),
    ...steps.slice(0, steps_max).flatMap((step, at) => stepIssues(`steps.${at}`, step, has_upload)),
    ...(egress === undefined ? [] : egressIssues(egress)),
  ]
}

export function parseBase(base: string): { slug: string; version: number | null } | null {
  const [, slug, version] = /^([a-z0-9][a-z0-9-]{0,62})(?:@([1-9][0-9]{0,8}))?$/.exec(base) ?? []
  return slug === undefined ? null : { slug, version: version === undefined ? null : Number(version) }
}

/** @returns the id of the upload; null: the base is a template. */
export function uploadOf({ base = '' }: Recipe): string | null {
  return UPLOAD_BASE.exec(base)?.[1] ?? null
}

export const UPLOAD_BASE = /^upload:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

function baseIssues(base: string): RecipeIssue[] {
  if (parseBase(base) !== null || UPLOAD_BASE.test(base)) return []
  return [issue('base', 'invalid_recipe', 'must be slug@version, a slug, or upload: with the id of an upload')]
}

const PACKAGE = /^[a-z0-9][a-z0-9+.-]{1,99}(?:=[A-Za-z0-9][A-Za-z0-9.+:~*-]{0,99})?$/

function packageIssues(path: string, name: string): RecipeIssue[] {
  return PACKAGE.test(name) ? [] : [issue(path, 'invalid_package', 'must be the name of a Debian package, or name=version')]
}

function languageIssues({ languages = [] }: Recipe): RecipeIssue[] {
  return languages.flatMap(({ name, version }, at) => {
    const path = `languages.${at}`
    if (languages.findIndex((other) => other.name === name) < at)
      return [issue(path, 'language_conflict', `${name} is there twice: a template has one version of a language`)]
    if (findLanguage(name, version) !== undefined) return []
    const known = LANGUAGES.find((language) => language.name === name)
    const has = known === undefined ? LANGUAGES.map((one) => one.name) : known.versions.map((one) => one.version)
    return [issue(path, 'language_unavailable', `is not there: ${has.join(', ')} are`)]
  })
}

/** These paths belong to the machine: each machine creates them, or they are empty in a version. */
const OWNED = ['/proc', '/sys', '/dev', '/run', '/tmp', '/volumes', '/etc/resolv.conf', '/etc/hostname', '/etc/hosts', '/etc/machine-id']

export function pathIssues(path: string, given: string): RecipeIssue[] {
  const names = given.split('/').slice(1)
  if (!given.startsWith('/') || Buffer.byteLength(given) > LIMITS.file.path_bytes_max)
    return [issue(path, 'invalid_path', 'must be absolute, and no longer than a path may be')]
  if (names.some((name) => name === '.' || name === '..' || Buffer.byteLength(name) > LIMITS.tree.name_bytes_max))
    return [issue(path, 'invalid_path', 'must not have . or .. or a name that is too long')]
  const plain = `/${names.filter((name) => name !== '').join('/')}`
  if (OWNED.some((owned) => plain === owned || plain.startsWith(`${owned}/`)))
    return [issue(path, 'platform_owned_path', 'is of the machine, and not of the files of a template')]
  return []
}

function fileIssues(path: string, file: RecipeFile): RecipeIssue[] {
  const both = (file.content === undefined) === (file.content_base64 === undefined)
  return [
    ...pathIssues(`${path}.path`, file.path),
    ...(/\/$/.test(file.path) ? [issue(`${path}.path`, 'invalid_path', 'names a directory')] : []),
    ...(both ? [issue(path, 'invalid_recipe', 'must have either content or content_base64')] : []),
  ]
}

function stepIssues(path: string, step: NonNullable<Recipe['steps']>[number], has_upload: boolean): RecipeIssue[] {
  if (!('copy' in step)) {
    return step.cwd === undefined || step.cwd.startsWith('/') ? [] : [issue(`${path}.cwd`, 'invalid_path', 'must be absolute')]
  }
  return [
    ...(has_upload ? [] : [issue(path, 'upload_required', 'copies from an upload, and the build names none')]),
    ...pathIssues(`${path}.to`, step.to),
    ...step.copy.flatMap((source, at) =>
      source.split('/').includes('..') ? [issue(`${path}.copy.${at}`, 'invalid_path', 'leads out of the upload')] : [],
    ),
  ]
}

function egressIssues({ mode, extra_hosts, allow_hosts }: BuildEgress): RecipeIssue[] {
  const hosts = [...(extra_hosts ?? []), ...(allow_hosts ?? [])]
  const of = (path: string, list: readonly string[] = []) =>
    list.slice(0, LIMITS.build.hosts_max).flatMap((host, at) => hostIssues(`${path}.${at}`, host))
  return [
    ...(extra_hosts !== undefined && mode !== 'auto'
      ? [issue('egress.extra_hosts', 'extra_hosts_without_auto', 'goes with the mode auto alone')]
      : []),
    ...(allow_hosts !== undefined && mode !== 'allowlist'
      ? [issue('egress.allow_hosts', 'allow_hosts_without_allowlist', 'goes with the mode allowlist alone')]
      : []),
    ...(mode === 'allowlist' && (allow_hosts ?? []).length === 0
      ? [issue('egress.allow_hosts', 'allowlist_empty', 'must name at least one host: the mode deny_all lets nothing out')]
      : []),
    ...(hosts.length > LIMITS.build.hosts_max
      ? [issue('egress', 'too_many_hosts', `must not name more than ${LIMITS.build.hosts_max} hosts`)]
      : []),
    ...of('egress.extra_hosts', extra_hosts),
    ...of('egress.allow_hosts', allow_hosts),
  ]
}

function hostIssues(path: string, host: string): RecipeIssue[] {
  const normal = normalHost(host)
  return 'reason' in normal ? [issue(path, 'invalid_host', normal.message)] : []
}

function issue(path: string, reason: RecipeReason, message: string): RecipeIssue {
  return { path, reason, message }
}
