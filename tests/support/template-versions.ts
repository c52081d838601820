import type { TemplateSettings } from '../../contract/schemas/template-settings.ts'
import type { Db } from '../../service/db/database.ts'
import type { Clock } from '../../service/lib/clock.ts'
import type { Ids } from '../../service/lib/ids.ts'

interface World {
  database: { superuser: Db }
  clock: Clock
  ids: Ids
}

export async function unpublishedVersion(
  { database: { superuser: db }, clock, ids }: World,
  organization_id: string,
  slug: string,
  settings: TemplateSettings,
): Promise<number> {
  const { id: template_id } = await db
    .selectFrom('templates')
    .select('id')
    .where('slug', '=', slug)
    .where('organization_id', '=', organization_id)
    .executeTakeFirstOrThrow()
  const last = await db
    .selectFrom('template_versions')
    .select('version')
    .where('template_id', '=', template_id)
    .orderBy('version', 'desc')
    .executeTakeFirst()
  const version = (last?.version ?? 0) + 1
  const row = { id: ids.next(), template_id, version, layered: true, layers: ['1'.repeat(64)], settings: JSON.stringify(settings) }
  await db
    .insertInto('template_versions')
    .values({ ...row, created_at: clock.now(), published_at: null, archived_at: null })
    .execute()
  return version
}
