import type {
  templateVersionsArchive,
  templateVersionsArchiveOfOrganization,
  templateVersionsPublish,
  templateVersionsPublishOfOrganization,
} from '../../../contract/routes/app/templates.ts'
import { versionAuditTarget } from '../../core/templates/audit-target.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { readerOf } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import { changing } from '../calls/idempotency/change.ts'
import { findTemplate, findVersion, refusePlatform } from './find.ts'
import { lockTemplate, markVersion, type TemplateRow, type VersionRow } from './store.ts'
import { versionView } from './view.ts'
import type { ChangeDeps } from '../calls/deps.ts'

type PublishCall = Call<typeof templateVersionsPublish> | Call<typeof templateVersionsPublishOfOrganization>
type ArchiveCall = Call<typeof templateVersionsArchive> | Call<typeof templateVersionsArchiveOfOrganization>

export function publishVersion(call: PublishCall, deps: ChangeDeps): Promise<Reply> {
  return mark(call, deps, 'published_at', (template, version) => {
    if (template.archived_at !== null) throw fail('conflict', 'template_archived', 'The template is archived')
    if (version.archived_at !== null) throw fail('conflict', 'version_archived', 'The version is archived')
  })
}

export function archiveVersion(call: ArchiveCall, deps: ChangeDeps): Promise<Reply> {
  return mark(call, deps, 'archived_at', () => undefined)
}

/** The template's lock serializes calls: the second sees the change of the first. */
async function mark(
  call: PublishCall | ArchiveCall,
  deps: ChangeDeps,
  what: 'published_at' | 'archived_at',
  check: (template: TemplateRow, version: VersionRow) => void,
): Promise<Reply> {
  const { who, params, now } = call
  const work = async (tx: ChangeTx) => {
    const { id } = refusePlatform(await findTemplate(readerOf(tx), who, params))
    await lockTemplate(tx, id)
    const template = await findTemplate(readerOf(tx), who, params)
    const version = await findVersion(readerOf(tx), template, params.version)
    check(template, version)
    if (version[what] !== null) return { version, changed: false }
    await markVersion(tx, version.id, what, now)
    return { version: { ...version, [what]: now }, changed: true }
  }
  const { version } = await changing(deps, call, work, ({ version, changed }) => (changed ? versionAuditTarget(version) : null))
  return { status: 200, body: versionView(version) }
}
