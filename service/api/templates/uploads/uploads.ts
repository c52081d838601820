import type {
  templateUploadsCreate,
  templateUploadsDelete,
  templateUploadsGet,
  templateUploadsPart,
} from '../../../../contract/routes/app/template-uploads.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { TemplateUpload } from '../../../../contract/schemas/template-uploads.ts'
import type { AuditTarget } from '../../../core/changes/audit.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Call, Principal, Reply } from '../../../http/call.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { maySee, notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { finishUpload } from './finish.ts'
import { removePart, removeUpload, TooMuch, writePart } from './folder.ts'
import { addPart, countUploads, deleteUpload, insertUpload, readUpload, type UploadPart, type UploadRow } from './store.ts'
import type { CallDeps, ChangeDeps, ReadDeps } from '../../calls/deps.ts'
import type { TemplateDeps } from '../deps.ts'

const {
  bytes_max,
  part_bytes_max,
  part_bytes_min,
  parts_max,
  per_organization_max,
  organization_bytes_max,
  unfinished_hours,
  unused_hours,
} = LIMITS.template_upload
const HOUR_MS = 3600_000

export async function createUpload(
  call: Call<typeof templateUploadsCreate>,
  deps: ChangeDeps & ReadDeps & Pick<TemplateDeps, 'uploads_dir'>,
): Promise<Reply> {
  const { body, who, now } = call
  folderOf(deps)
  const project = await projectOf(deps.reads, who, body.project_id)
  const { size_bytes, sha256 } = body
  if (size_bytes > bytes_max) {
    const details = { field: 'size_bytes', max_bytes: bytes_max }
    throw fail('validation_failed', 'upload_too_large', `An upload has at most ${bytes_max} bytes`, { details })
  }
  const id = deps.ids.next()
  const work = async (tx: ChangeTx) => {
    const { count, bytes } = await countUploads(tx, project.organization_id)
    if (count >= per_organization_max) throw tooMuch('template_uploads', per_organization_max, count)
    if (bytes + size_bytes > organization_bytes_max) throw tooMuch('template_upload_bytes', organization_bytes_max, bytes)
    await insertUpload(tx, { id, ...project, size_bytes, sha256, created_at: now })
  }
  await changing(deps, call, work, () => subjectOf({ id, ...project }))
  return { status: 201, body: uploadView(await findIn(deps.reads, who, id)) }
}

export async function getUpload({ who, params }: Call<typeof templateUploadsGet>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: uploadView(await findIn(deps.reads, who, params.upload_id)) }
}

/** Writes the part's file before its row. If a process died after the last part, a request with an empty body finishes the upload. */
export async function putPart(
  call: Call<typeof templateUploadsPart>,
  deps: ChangeDeps & ReadDeps & Pick<CallDeps, 'reserve'> & Pick<TemplateDeps, 'uploads_dir' | 'part_places'>,
): Promise<Reply> {
  const { who, params, query, now } = call
  const upload = await findIn(deps.reads, who, params.upload_id)
  const folder = folderOf(deps)
  const { offset = 0 } = query
  if (upload.received_bytes !== offset || upload.complete) throw notNext(upload)
  using _place = deps.part_places.take(upload)
  const part = await receive(call, deps, folder, upload)
  if (part === null) return await finish(call, deps, folder, upload)
  const kept = await changing(
    deps,
    call,
    (tx) => addPart(tx, upload.id, offset, part, now),
    (added) => (added ? subjectOf(upload) : null),
  )
  // Removes the file before anything can throw: no row refers to it.
  if (!kept) await removePart(folder, upload.id, part)
  const found = await readUpload(deps.reads, upload.id)
  if (found === null) await removeUpload(folder, upload.id)
  if (found === null || !maySee(who, found)) throw notFound('upload')
  if (!kept) throw notNext(found)
  if (found.received_bytes < found.size_bytes) return { status: 200, body: uploadView(found) }
  return await finish(call, deps, folder, found)
}

/** @returns null if all bytes were received before. */
async function receive(
  call: Call<typeof templateUploadsPart>,
  deps: Pick<CallDeps, 'reserve'>,
  folder: string,
  { id, size_bytes, received_bytes }: UploadRow,
): Promise<UploadPart | null> {
  const left = size_bytes - received_bytes
  const most = Math.min(part_bytes_max, left)
  using _reserved = await deps.reserve.take(Math.min(Number(call.headers['content-length'] ?? most), most))
  let part: UploadPart
  try {
    part = await writePart(folder, id, call.body_stream as AsyncIterable<Buffer>, most)
  } catch (error) {
    if (error instanceof TooMuch)
      throw fail('payload_too_large', null, 'The part has more than is left, or than a part may have', { details: { max_bytes: most } })
    if (isMissing(error)) throw notFound('upload') // the upload was deleted meanwhile, with its directory
    if (call.body_stream.destroyed) throw fail('bad_request', null, 'The part broke off: nothing of it was kept', { cause: error })
    throw error
  }
  const least = Math.min(leastPart(size_bytes), left)
  if (part.bytes > 0 && part.bytes >= least) return part
  await removePart(folder, id, part)
  if (part.bytes === 0 && left === 0) return null
  if (part.bytes === 0) throw fail('bad_request', null, 'The part is empty')
  const message = `A part of this upload has at least ${least} bytes, unless it is the last`
  throw fail('validation_failed', null, message, { details: { field: 'body', issues: [{ path: 'body', message }] } })
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

/** Parts have a minimum size, because each costs a file and a rewrite of the row. */
function leastPart(size_bytes: number): number {
  return Math.max(part_bytes_min, Math.ceil(size_bytes / parts_max))
}

async function finish(
  call: Call<typeof templateUploadsPart>,
  deps: ReadDeps & Pick<CallDeps, 'db'>,
  folder: string,
  upload: UploadRow,
): Promise<Reply> {
  const digest = await finishUpload(deps.db, folder, upload, call.now)
  if (digest === null) return { status: 200, body: uploadView(await findIn(deps.reads, call.who, upload.id)) }
  const message = `What came has the digest ${digest}: the upload begins again`
  throw fail('validation_failed', 'upload_digest_mismatch', message, { details: { field: 'sha256' } })
}

export async function removeOneUpload(
  call: Call<typeof templateUploadsDelete>,
  deps: ChangeDeps & ReadDeps & Pick<TemplateDeps, 'uploads_dir'>,
): Promise<Reply> {
  const upload = await findIn(deps.reads, call.who, call.params.upload_id)
  await changing(
    deps,
    call,
    (tx) => deleteUpload(tx, upload.id),
    () => subjectOf(upload),
  )
  if (deps.uploads_dir !== null) await removeUpload(deps.uploads_dir, upload.id)
  return { status: 204 }
}

function subjectOf({ id, organization_id, project_id }: Pick<UploadRow, 'id' | 'organization_id' | 'project_id'>): AuditTarget {
  return { kind: 'template_upload', id, organization_id, project_id, details: {} }
}

async function findIn(reads: Reader, who: Principal, id: string): Promise<UploadRow> {
  const row = await readUpload(reads, id)
  if (row === null || !maySee(who, row)) throw notFound('upload')
  return row
}

function folderOf({ uploads_dir }: Pick<TemplateDeps, 'uploads_dir'>): string {
  if (uploads_dir !== null) return uploads_dir
  throw fail('dependency_unavailable', 'uploads_not_configured', 'This installation keeps no uploads')
}

function notNext({ received_bytes, complete }: UploadRow): Failure {
  const message = complete ? 'All of the upload is there' : `The next part begins at ${received_bytes}`
  return fail('validation_failed', null, message, { details: { field: 'offset', issues: [{ path: 'offset', message }] } })
}

function tooMuch(limit: string, limit_value: number, current: number): Failure {
  const details = { limit, limit_value, current }
  return fail('quota_exceeded', null, 'The organization has as many uploads as it may have: delete some', { details })
}

function uploadView({ used_at, created_at, parts: _, complete, ...row }: UploadRow): TemplateUpload {
  const hours = complete ? unused_hours : unfinished_hours
  const expires_at = new Date(used_at.getTime() + hours * HOUR_MS).toISOString()
  return { ...row, state: complete ? 'complete' : 'receiving', created_at: created_at.toISOString(), expires_at }
}
