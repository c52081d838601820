import { RESERVED_TEMPLATE_SLUGS } from '../../../../contract/schemas/templates.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { aboutBuild, insertOperation } from '../../../core/workspaces/operations/store.ts'
import { buildRefusal } from '../../../core/templates/builds/plan.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Principal } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { takeOfDay } from '../../calls/daily/take.ts'
import { workedOnBuild, type BuildCommandResult } from './cancel.ts'
import { refuseAutoPublish } from './permissions.ts'
import {
  countBuilds,
  insertBuild,
  isPlatformSlug,
  lockOrMakeTemplate,
  readBuildLimit,
  type LockedTemplate,
  type NewBuild,
  type NewTemplate,
} from './store.ts'
import type { CallDeps } from '../../calls/deps.ts'

type Ids = Pick<CallDeps, 'ids'>

export async function refusePlatformSlug(tx: ChangeTx, slug: string, field: 'slug' | 'template_slug'): Promise<void> {
  if (!(await isPlatformSlug(readerOf(tx), slug))) return
  throw fail('validation_failed', 'platform_template_slug', 'The platform has a template of that slug', { details: { field } })
}

export async function refuseReservedSlug(tx: ChangeTx, slug: string): Promise<void> {
  await refusePlatformSlug(tx, slug, 'slug')
  if (!RESERVED_TEMPLATE_SLUGS.includes(slug)) return
  throw fail('validation_failed', 'reserved_template_slug', 'The slug is kept for a template of the platform', {
    details: { field: 'slug' },
  })
}

export type NamedTemplate = Omit<NewTemplate, 'id' | 'project_id'>

export async function templateToBuild(
  deps: Ids,
  tx: ChangeTx,
  { who, body }: { who: Principal; body: { auto_publish?: boolean | undefined } },
  named: NamedTemplate,
): Promise<string> {
  const template = await templateToChange(deps, tx, who, named)
  refuseAutoPublish(who, body.auto_publish, template)
  await refuseManyBuilds(tx, named.organization_id)
  return template.id
}

export async function templateToChange({ ids }: Ids, tx: ChangeTx, who: Principal, named: NamedTemplate): Promise<LockedTemplate> {
  const project_id = who.type === 'user' ? null : who.project_id
  const template = await lockOrMakeTemplate(tx, { ...named, project_id, id: ids.next() })
  if (template.archived_at !== null) throw fail('conflict', 'template_archived', 'The template is archived')
  return template
}

export async function refuseManyBuilds(tx: ChangeTx, organization_id: string): Promise<void> {
  const refused = buildRefusal(await readBuildLimit(readerOf(tx), organization_id), await countBuilds(tx, organization_id))
  if (refused !== null) throw refused
}

export async function beginBuild(
  { ids }: Ids,
  tx: ChangeTx,
  { template_slug, cell_id, ...asked }: Omit<NewBuild, 'id' | 'operation_id'> & { template_slug: string; cell_id: string | null },
): Promise<BuildCommandResult> {
  const build = { ...asked, id: ids.next(), operation_id: ids.next() }
  const input = { build_id: build.id, template_slug }
  const operation = { id: build.operation_id, kind: 'template_build', cell_id, input, now: asked.now } as const
  await insertOperation(tx, { ...aboutBuild(build), ...operation }, null)
  await insertBuild(tx, build)
  await takeOfDay(tx, 'template_builds', build.organization_id, asked.now)
  return workedOnBuild(build, 202)
}
