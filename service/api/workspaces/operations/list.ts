import type { operationsList } from '../../../../contract/routes/app/operations.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { findWorkspace } from '../find.ts'
import { listOperations } from './store.ts'
import { operationView } from './view.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listOperationsOfWorkspace(call: Call<typeof operationsList>, deps: PageDeps): Promise<Reply> {
  const workspace = await findWorkspace(deps, call)
  const page = pageOf(deps.cursor_keys, call)
  const rows = await listOperations(deps.reads, workspace.id, call.query, page)
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, operationView) }
}
