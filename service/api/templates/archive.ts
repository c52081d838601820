import type { templatesArchive, templatesArchiveOfOrganization } from '../../../contract/routes/app/templates.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { readerOf } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { changing } from '../calls/idempotency/change.ts'
import { findTemplate, refusePlatform } from './find.ts'
import { lockTemplate, markArchived, type TemplateRow } from './store.ts'
import { templateView } from './view.ts'
import type { ChangeDeps } from '../calls/deps.ts'

export async function archiveTemplate(
  call: Call<typeof templatesArchive> | Call<typeof templatesArchiveOfOrganization>,
  deps: ChangeDeps,
): Promise<Reply> {
  const { who, params, now } = call
  const work = async (tx: ChangeTx) => {
    const { id } = refusePlatform(await findTemplate(readerOf(tx), who, params))
    await lockTemplate(tx, id)
    const template = await findTemplate(readerOf(tx), who, params)
    if (template.archived_at !== null) return { template, changed: false }
    await markArchived(tx, id, now)
    return { template: { ...template, archived_at: now }, changed: true }
  }
  const { template } = await changing(deps, call, work, ({ template, changed }) => (changed ? subjectOf(template) : null))
  return { status: 200, body: templateView(template) }
}

function subjectOf({ id, organization_id, slug }: TemplateRow) {
  return { kind: 'template', id, organization_id, project_id: null, details: { slug } } as const
}
