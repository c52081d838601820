import type {
  templateUploadsCreate,
  templateUploadsDelete,
  templateUploadsGet,
  templateUploadsPart,
} from '../../../contract/routes/app/template-uploads.ts'
import { LIMITS } from '../../../contract/limits.ts'
import type { TemplateUpload } from '../../../contract/schemas/template-uploads.ts'
import type { Subject } from '../../core/changes/audit.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import type { Reader } from '../../db/reader.ts'
import type { Call, Principal, Reply } from '../../http/call.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { maySee, notFound } from '../auth/scope.ts'
import type { ApiDeps } from '../deps.ts'
import { changing } from '../idempotency/change.ts'
import { projectOf } from '../projects/project-of.ts'
import { digestOfParts, removePart, removeUpload, TooMuch, writePart } from './folder.ts'
import {
  addPart,
  completeUpload,
  countUploads,
  deleteUpload,
  insertUpload,
  readUpload,
  restartUpload,
  type UploadPart,
  type UploadRow,
} from './store.ts'

const { bytes_max, part_bytes_max, per_organization_max, unfinished_hours, unused_hours } = LIMITS.template_upload
const HOUR_MS = 3600_000

/** POST /v1/template-uploads */
export async function createUpload(call: Call<typeof templateUploadsCreate>, deps: ApiDeps): Promise<Reply> {
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
    const current = await countUploads(tx, project.organization_id)
    if (current >= per_organization_max) throw tooMany(current)
    await insertUpload(tx, { id, ...project, size_bytes, sha256, created_at: now })
  }
  await changing(deps, call, work, () => subjectOf({ id, ...project }))
  return { status: 201, body: uploadView(await findIn(deps.reads, who, id)) }
}

/** GET /v1/template-uploads/{upload_id} */
export async function getUpload({ who, params }: Call<typeof templateUploadsGet>, deps: ApiDeps): Promise<Reply> {
  return { status: 200, body: uploadView(await findIn(deps.reads, who, params.upload_id)) }
}

/** PUT /v1/template-uploads/{upload_id}: what comes is a file of its own before anything counts it. */
export async function putPart(call: Call<typeof templateUploadsPart>, deps: ApiDeps): Promise<Reply> {
  const { who, params, query, now } = call
  const upload = await findIn(deps.reads, who, params.upload_id)
  const folder = folderOf(deps)
  const { offset = 0 } = query
  if (upload.received_bytes !== offset || upload.complete) throw notNext(upload)
  const most = Math.min(part_bytes_max, upload.size_bytes - upload.received_bytes)
  const part = await receive(call, folder, upload.id, most)
  const kept = await changing(
    deps,
    call,
    (tx) => addPart(tx, upload.id, offset, part, now),
    (added) => (added ? subjectOf(upload) : null),
  )
  const found = await findIn(deps.reads, who, params.upload_id)
  if (!kept) {
    await removePart(folder, upload.id, part)
    throw notNext(found)
  }
  if (found.received_bytes < found.size_bytes) return { status: 200, body: uploadView(found) }
  return finish(call, deps, folder, found)
}

async function receive(call: Call<typeof templateUploadsPart>, folder: string, id: string, most: number): Promise<UploadPart> {
  const source = call.body_stream as AsyncIterable<Buffer>
  try {
    const part = await writePart(folder, id, source, most)
    if (part.bytes > 0) return part
    await removePart(folder, id, part)
  } catch (error) {
    if (error instanceof TooMuch)
      throw fail('payload_too_large', null, 'The part has more than is left, or than a part may have', { details: { max_bytes: most } })
    if (call.body_stream.destroyed) throw fail('bad_request', null, 'The part broke off: nothing of it was kept', { cause: error })
    throw error
  }
  throw fail('bad_request', null, 'The part is empty')
}

async function finish(call: Call<typeof templateUploadsPart>, deps: ApiDeps, folder: string, upload: UploadRow): Promise<Reply> {
  const digest = await digestOfParts(folder, upload.id, upload.parts)
  const whole = digest === upload.sha256
  await deps.db.transaction().execute((tx) => (whole ? completeUpload(tx, upload.id, call.now) : restartUpload(tx, upload.id)))
  if (whole) return { status: 200, body: uploadView(await findIn(deps.reads, call.who, upload.id)) }
  for (const part of upload.parts) await removePart(folder, upload.id, part)
  const message = `What came has the digest ${digest}: the upload begins anew`
  throw fail('validation_failed', 'upload_digest_mismatch', message, { details: { field: 'sha256' } })
}

/** DELETE /v1/template-uploads/{upload_id} */
export async function removeOneUpload(call: Call<typeof templateUploadsDelete>, deps: ApiDeps): Promise<Reply> {
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

function subjectOf({ id, organization_id, project_id }: Pick<UploadRow, 'id' | 'organization_id' | 'project_id'>): Subject {
  return { kind: 'template_upload', id, organization_id, project_id, details: {} }
}

/** The upload that a caller means. @throws 404 */
async function findIn(reads: Reader, who: Principal, id: string): Promise<UploadRow> {
  const row = await readUpload(reads, id)
  if (row === null || !maySee(who, row)) throw notFound('upload')
  return row
}

function folderOf({ uploads_dir }: ApiDeps): string {
  if (uploads_dir !== null) return uploads_dir
  throw fail('dependency_unavailable', 'uploads_not_configured', 'This installation keeps no uploads')
}

function notNext({ received_bytes, complete }: UploadRow): Failure {
  const message = complete ? 'All of the upload is there' : `The next part begins at ${received_bytes}`
  return fail('validation_failed', null, message, { details: { field: 'offset', issues: [{ path: 'offset', message }] } })
}

function tooMany(current: number): Failure {
  const details = { limit: 'template_uploads', limit_value: per_organization_max, current }
  return fail('quota_exceeded', null, 'The organization has as many uploads as it may have: delete some', { details })
}

function uploadView({ used_at, created_at, parts: _, complete, ...row }: UploadRow): TemplateUpload {
  const hours = complete ? unused_hours : unfinished_hours
  const expires_at = new Date(used_at.getTime() + hours * HOUR_MS).toISOString()
  return { ...row, state: complete ? 'complete' : 'receiving', created_at: created_at.toISOString(), expires_at }
}
