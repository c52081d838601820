import type { attachmentsList } from '../../../../contract/routes/app/volumes.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { findWorkspace } from '../find.ts'
import { attachmentView } from './answer.ts'
import { listAttachments } from './store.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listAttachmentsOfWorkspace(call: Call<typeof attachmentsList>, deps: PageDeps): Promise<Reply> {
  const workspace = await findWorkspace(deps, call)
  const rows = await listAttachments(deps.reads, workspace.id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, attachmentView) }
}
