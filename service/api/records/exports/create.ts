import type { exportsCreate, exportsCreateOfOrganization } from '../../../../contract/routes/app/exports.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { StaleReadError } from '../../../core/changes/stale-read-error.ts'
import { personOf } from '../../access/auth/people.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { insertExport, readExport, readUnderWay } from './store.ts'
import { exportView, whoseExports } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { RecordDeps } from '../deps.ts'

export async function createExport(
  call: Call<typeof exportsCreate | typeof exportsCreateOfOrganization>,
  deps: ChangeDeps & Pick<RecordDeps, 'exports'>,
): Promise<Reply> {
  const whose = whoseExports(call.who, call.params)
  const organization_id = 'organization_id' in whose ? whose.organization_id : null
  const work = async (tx: ChangeTx) => {
    const id = deps.ids.next()
    const is_new = await insertExport(tx, { id, organization_id, requested_by: personOf(call.who).id }, call.now)
    const reads = readerOf(tx)
    const row = is_new ? await readExport(reads, whose, id) : await readUnderWay(reads, whose)
    if (row === undefined) throw new StaleReadError() // the running export has just ended, so the call is repeated
    return { row, is_new }
  }
  const { row, is_new } = await changing(deps, call, work, (made) =>
    made.is_new ? { kind: 'export', id: made.row.id, organization_id, project_id: null } : null,
  )
  if (is_new) deps.exports.poke()
  return { status: 202, body: exportView(row) }
}
