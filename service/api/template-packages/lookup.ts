import type { templateLanguagesList, templatePackagesList } from '../../../contract/routes/app/template-packages.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { LANGUAGES } from '../../../contract/recipes/languages.ts'
import type { Architecture } from '../../../contract/schemas/recipes.ts'
import type { TemplatePackage } from '../../../contract/schemas/template-packages.ts'
import type { Buckets } from '../../http/buckets.ts'
import { createBuckets } from '../../http/buckets.ts'
import type { Call, Principal, Reply } from '../../http/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { fail } from '../../lib/fail.ts'
import type { ApiDeps } from '../deps.ts'
import { organizationIds } from '../organizations/view.ts'

/** GET /v1/template-packages: a name that equals the query, then names that begin with it, then names that contain it. */
export async function listPackages({ who, query }: Call<typeof templatePackagesList>, deps: ApiDeps): Promise<Reply> {
  takeLookup(deps, who)
  const packages = packagesOf(deps, query.architecture)
  const data = query.name === undefined ? search(packages, query.query ?? '', query.limit) : [named(packages, query.name)]
  return { status: 200, body: { data } }
}

const RESULTS_DEFAULT = 20
type Packages = ReadonlyMap<string, TemplatePackage>

function search(packages: Packages, query: string, limit = RESULTS_DEFAULT): TemplatePackage[] {
  const wanted = query.toLowerCase()
  const rank = ({ name }: TemplatePackage) => (name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2)
  const found = [...packages.values()].filter(({ name }) => name.includes(wanted))
  return found.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1)).slice(0, limit)
}

function named(packages: Packages, name: string): TemplatePackage {
  const found = packages.get(name)
  if (found === undefined) throw fail('not_found', 'package_not_found', 'The mirror has no package of this name')
  return found
}

/** GET /v1/template-languages */
export async function listLanguages(_call: Call<typeof templateLanguagesList>): Promise<Reply> {
  const data = LANGUAGES.map(({ name, versions }) => {
    return { name, versions: versions.map(({ version }) => version), default_version: versions[0].version }
  })
  return { status: 200, body: { data } }
}

function packagesOf({ packages }: ApiDeps, architecture: Architecture = 'amd64'): Packages {
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

/** Of each organization; a person's count for the first of theirs. */
export function createLookups(clock: Clock): Buckets {
  return createBuckets({ tokens: LIMITS.template_package.lookups_per_minute, seconds: 60, names_max: ORGANIZATIONS_COUNTED_MAX }, clock)
}

function takeLookup({ package_lookups }: ApiDeps, who: Principal): void {
  const retry_after_seconds = package_lookups.take(organizationIds(who)[0] ?? who.id)
  if (retry_after_seconds === 0) return
  throw fail('rate_limited', null, 'The organization has looked up as many packages as it may in a minute', { retry_after_seconds })
}
