import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { LIMITS } from '../../../../contract/limits.ts'
import type { auditExport } from '../../../../contract/routes/app/audit.ts'
import { eventsAfter } from '../../../core/changes/chain-store.ts'
import type { EventRow } from '../../../core/changes/chain.ts'
import type { Db } from '../../../db/database.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { eventView } from './list.ts'
import type { CallDeps } from '../../calls/deps.ts'

const PAGE = 1000
const HEADERS = { 'content-type': 'application/x-ndjson', 'x-content-type-options': 'nosniff' }

/** In chain order, so a caller who continues after an interruption misses no record. */
export async function exportAuditEvents({ params, query }: Call<typeof auditExport>, { db }: Pick<CallDeps, 'db'>): Promise<Reply> {
  const { organization_id } = params
  const first = await eventsAfter(db, organization_id, query.after ?? 0, PAGE) // read before the answer begins, so a failure can still be answered
  return {
    async stream(response) {
      response.writeHead(200, HEADERS)
      // If the answer is interrupted, its end marker is missing: the caller notices.
      await pipeline(Readable.from(lines(db, organization_id, first)), response).catch(() => undefined)
    },
  }
}

async function* lines(db: Db, organization_id: string, first: EventRow[]): AsyncGenerator<string> {
  let told = 0
  for (let rows = first; rows.length > 0 && told < LIMITS.audit.export_rows_max;) {
    yield rows.map((row) => `${JSON.stringify(eventView(organization_id, row))}\n`).join('')
    told += rows.length
    if (rows.length < PAGE) return
    rows = await eventsAfter(db, organization_id, rows.at(-1)?.sequence ?? 0, PAGE)
  }
}
