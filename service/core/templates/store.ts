import type { EgressPolicy } from '../../../contract/egress/policy.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import type { Db } from '../../db/database.ts'
import type { ChangeTx } from '../changes/mutate.ts'
import type { Ids } from '../../lib/ids.ts'

export interface NewVersion {
  organization_id: string | null
  slug: string
  layered: boolean
  layers: string[]
  settings: TemplateSettings
  /** Ceiling of the egress of the template's workspaces. */
  egress: EgressPolicy | null
}

export interface LatestVersion {
  version: number
  layered: boolean
  layers: string[]
  settings: object
  egress: EgressPolicy | null
}

/** `organization_id` null: a template of the platform. */
export function latestVersion(db: Db, organization_id: string | null, slug: string): Promise<LatestVersion | undefined> {
  return versionsOf(db, organization_id, slug)
    .where('template_versions.published_at', 'is not', null)
    .orderBy('template_versions.version', 'desc')
    .executeTakeFirst()
}

export function readVersion(db: Db, organization_id: string | null, slug: string, version: number): Promise<LatestVersion | undefined> {
  return versionsOf(db, organization_id, slug).where('template_versions.version', '=', version).executeTakeFirst()
}

function versionsOf(db: Db, organization_id: string | null, slug: string) {
  return db
    .selectFrom('template_versions')
    .innerJoin('templates', 'templates.id', 'template_versions.template_id')
    .select(['template_versions.version', 'template_versions.layered', 'template_versions.layers', 'template_versions.settings'])
    .select((e) => e.ref('template_versions.egress').$castTo<EgressPolicy | null>().as('egress'))
    .where('templates.slug', '=', slug)
    .where('templates.organization_id', organization_id === null ? 'is' : '=', organization_id)
}

export async function publishVersion(
  tx: ChangeTx,
  next: NewVersion,
  at: { ids: Ids; now: Date },
): Promise<{ id: string; version: number }> {
  const template_id = await lockTemplate(tx, next, at)
  const last = await tx
    .selectFrom('template_versions')
    .select('version')
    .where('template_id', '=', template_id)
    .orderBy('version', 'desc')
    .executeTakeFirst()
  const id = at.ids.next()
  const version = (last?.version ?? 0) + 1
  const { layered, layers } = next
  const settings = JSON.stringify(next.settings)
  const egress = next.egress === null ? null : JSON.stringify(next.egress)
  const times = { created_at: at.now, published_at: at.now, archived_at: null }
  await tx
    .insertInto('template_versions')
    .values({ id, template_id, version, layered, layers, settings, egress, ...times })
    .execute()
  return { id, version }
}

/** Locks the template, so that concurrent publications get different numbers. */
async function lockTemplate(tx: ChangeTx, { organization_id, slug }: NewVersion, at: { ids: Ids; now: Date }): Promise<string> {
  await tx
    .insertInto('templates')
    .values({ id: at.ids.next(), organization_id, slug, created_at: at.now, archived_at: null })
    .onConflict((conflict) => conflict.columns(['organization_id', 'slug']).doNothing())
    .execute()
  const { id } = await tx
    .selectFrom('templates')
    .select('id')
    .where('slug', '=', slug)
    .where('organization_id', organization_id === null ? 'is' : '=', organization_id)
    .forUpdate()
    .executeTakeFirstOrThrow()
  return id
}

export function listVersions(db: Db) {
  return db
    .selectFrom('template_versions')
    .innerJoin('templates', 'templates.id', 'template_versions.template_id')
    .leftJoin('organizations', 'organizations.id', 'templates.organization_id')
    .select([
      'templates.slug',
      'organizations.slug as organization',
      'template_versions.version',
      'template_versions.layered',
      'template_versions.layers',
      'template_versions.settings',
      'template_versions.egress',
      'template_versions.published_at',
      'template_versions.archived_at',
    ])
    .orderBy('templates.slug')
    .orderBy('template_versions.version')
    .execute()
}
