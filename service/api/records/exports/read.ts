import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type {
  exportsContent,
  exportsContentOfOrganization,
  exportsGet,
  exportsGetOfOrganization,
  exportsList,
  exportsListOfOrganization,
} from '../../../../contract/routes/app/exports.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Call, Principal, Reply } from '../../../http/call.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { notFound } from '../../calls/scope.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listExports, readExport, readPart, type ExportRow } from './store.ts'
import { exportView, whoseExports } from './view.ts'
import type { PageDeps, ReadDeps } from '../../calls/deps.ts'

export async function listAllExports(call: Call<typeof exportsList | typeof exportsListOfOrganization>, deps: PageDeps): Promise<Reply> {
  const whose = whoseExports(call.who, call.params)
  const rows = await listExports(deps.reads, whose, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, exportView) }
}

export async function getExport(
  { who, params }: Call<typeof exportsGet | typeof exportsGetOfOrganization>,
  deps: ReadDeps,
): Promise<Reply> {
  return { status: 200, body: exportView(await find(deps.reads, who, params)) }
}

export async function readContent(
  { who, params }: Call<typeof exportsContent | typeof exportsContentOfOrganization>,
  { reads }: ReadDeps,
): Promise<Reply> {
  const row = await find(reads, who, params)
  const first = row.state === 'ready' ? await readPart(reads, row, 0) : undefined // read before the answer begins, so a failure can still be answered
  if (first === undefined) throw refusal(row)
  const headers = {
    'content-type': 'application/gzip',
    'content-length': String(row.size_bytes),
    'content-disposition': `attachment; filename="${row.organization_id === null ? 'account' : 'organization'}-${row.id}.tar.gz"`,
    'x-content-type-options': 'nosniff',
  }
  return {
    async stream(response) {
      response.writeHead(200, headers)
      // If the answer is interrupted, it is shorter than its content length: the caller notices.
      await pipeline(Readable.from(parts(reads, row, first)), response).catch(() => response.destroy())
    },
  }
}

async function* parts(reads: Reader, row: ExportRow, first: Buffer): AsyncGenerator<Buffer> {
  let bytes = 0
  for (let [number, part]: [number, Buffer | undefined] = [1, first]; part !== undefined; part = await readPart(reads, row, number++)) {
    bytes += part.length
    yield part
  }
  if (bytes !== row.size_bytes) throw new Error('the export has gone while it was read')
}

function refusal({ state, failure }: ExportRow): Failure {
  switch (state) {
    case 'queued':
    case 'running':
      return fail('conflict', null, 'The export is not ready yet', { retryable: true, retry_after_seconds: 2 })
    case 'failed':
      return failure === 'export_too_large'
        ? fail('conflict', 'export_too_large', 'There is more than an export may have: read the records route by route')
        : fail('conflict', null, 'The export could not be made: ask for another one')
    case 'ready':
    case 'expired':
      return fail('conflict', 'export_expired', 'The export is not kept any more: ask for another one')
  }
}

async function find(
  reads: Reader,
  who: Principal,
  params: { account_export_id: string } | { organization_id: string; export_id: string },
): Promise<ExportRow> {
  const id = 'account_export_id' in params ? params.account_export_id : params.export_id
  const row = await readExport(reads, whoseExports(who, 'organization_id' in params ? params : {}), id)
  if (row === undefined) throw notFound('export')
  return row
}
