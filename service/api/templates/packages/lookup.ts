import type { templateLanguagesList, templatePackagesList } from '../../../../contract/routes/app/template-packages.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { LANGUAGES } from '../../../../contract/recipes/languages.ts'
import type { Architecture } from '../../../../contract/schemas/recipes.ts'
import type { TemplatePackage } from '../../../../contract/schemas/template-packages.ts'
import { type Buckets, createBuckets } from '../../../http/buckets.ts'
import type { Call, Principal, Reply } from '../../../http/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail } from '../../../lib/fail.ts'
import { organizationIds } from '../../../core/people/organizations/store.ts'
import { cursorAt, whereOf } from '../../calls/pages.ts'
import type { CallDeps } from '../../calls/deps.ts'
import type { TemplateDeps } from '../deps.ts'

export async function listPackages(
  call: Call<typeof templatePackagesList>,
  deps: Pick<CallDeps, 'cursor_keys'> & Pick<TemplateDeps, 'packages' | 'package_lookups'>,
): Promise<Reply> {
  const { who, query } = call
  const from = whereOf(deps.cursor_keys, call)?.readUInt32BE() ?? 0
  takeLookup(deps, who)
  const packages = packagesOf(deps, query.architecture)
  if (query.name !== undefined) return { status: 200, body: { data: [named(packages, query.name)], next_cursor: null } }
  const found = search(packages, query.query ?? '')
  const next = from + (query.limit ?? LIMITS.page.size_default)
  const next_cursor = next < found.length ? cursorAt(deps.cursor_keys, call, placeOf(next)) : null
  return { status: 200, body: { data: found.slice(from, next), next_cursor } }
}

function placeOf(at: number): Buffer {
  const where = Buffer.alloc(4)
  where.writeUInt32BE(at)
  return where
}

type Packages = ReadonlyMap<string, TemplatePackage>

function search(packages: Packages, query: string): TemplatePackage[] {
  const wanted = query.toLowerCase()
  const rank = ({ name }: TemplatePackage) => (name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2)
  const found = [...packages.values()].filter(({ name }) => name.includes(wanted))
  return found.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1))
}

function named(packages: Packages, name: string): TemplatePackage {
  const found = packages.get(name)
  if (found === undefined) throw fail('not_found', 'package_not_found', 'The mirror has no package of this name')
  return found
}

export async function listLanguages(_call: Call<typeof templateLanguagesList>): Promise<Reply> {
  const data = LANGUAGES.map(({ name, versions }) => {
    return { name, versions: versions.map(({ version }) => version), default_version: versions[0].version }
  })
  return { status: 200, body: { data, next_cursor: null } }
}

function packagesOf({ packages }: Pick<TemplateDeps, 'packages'>, architecture: Architecture = 'amd64'): Packages {
  const found = packages?.of(architecture) ?? { kind: 'unreachable' }
  switch (found.kind) {
    case 'packages':
      return found.packages
    case 'loading':
      throw fail('dependency_unavailable', 'package_index_loading', 'The index of packages is being read: ask again in some seconds', {
        retry_after_seconds: LOADING_SECONDS,
      })
    case 'unreachable':
      throw fail('dependency_unavailable', 'package_search_unavailable', 'The mirror of packages cannot be asked at the moment')
    case 'absent':
      throw fail('conflict', 'package_index_unavailable', `The mirror has no packages for ${architecture}`)
  }
}

const LOADING_SECONDS = 2
const ORGANIZATIONS_COUNTED_MAX = 50_000

/** A person's look-ups are charged to the first of their organizations. */
export function createLookups(clock: Clock): Buckets {
  return createBuckets({ tokens: LIMITS.template_package.lookups_per_minute, seconds: 60, names_max: ORGANIZATIONS_COUNTED_MAX }, clock)
}

function takeLookup({ package_lookups }: Pick<TemplateDeps, 'package_lookups'>, who: Principal): void {
  const retry_after_seconds = package_lookups.take(organizationIds(who)[0] ?? who.id)
  if (retry_after_seconds === 0) return
  throw fail('rate_limited', null, 'The organization has looked up as many packages as it may in a minute', { retry_after_seconds })
}
