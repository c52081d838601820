import type { App } from './app.ts'
import { BerthError } from './errors.ts'
import type { Of } from './nouns.ts'
import { type Deadline, mayRepeat, pause, waitBefore } from './retry.ts'
import type * as wire from './schemas.ts'
import { type CallOptions, deadlineFor, readJson } from './transport.ts'

/** Size of an upload's part. The API accepts 64 MiB, but a broken part is sent again as a whole. */
const PART_BYTES = 8 << 20
const UPLOAD_MS = 60 * 60_000

export interface UploadOptions extends Of {
  /** Digest of the whole tar, in hex. Default: computed here, which needs the whole tar in memory. */
  sha256?: string
  /** Called with the number of received bytes after each part. */
  onProgress?: (received_bytes: number) => void
}

/** Uploads of tars, which builds copy files from. */
export function uploadsOf(app: App) {
  return {
    /** Uploads a tar, plain or gzip, for builds to copy files from. Resumes after a lost connection. */
    upload: (tar: Uint8Array | Blob, options?: UploadOptions): Promise<wire.TemplateUpload> => upload(app, tar, options),
    /** Deletes an upload that no build needs any more. */
    deleteUpload: (upload_id: string, options?: CallOptions): Promise<void> =>
      app.call({ method: 'DELETE', path: `/v1/template-uploads/${upload_id}`, repeats: 'keyed' }, options),
  }
}

async function upload(app: App, tar: Uint8Array | Blob, options: UploadOptions = {}): Promise<wire.TemplateUpload> {
  const blob = tar instanceof Blob ? tar : new Blob([new Uint8Array(tar)])
  const deadline = deadlineFor(options, UPLOAD_MS)
  const sha256 = options.sha256 ?? (await digestOf(blob))
  const project_id = options.project ?? (await app.projectId())
  const json: wire.TemplateUploadRequest = { size_bytes: blob.size, sha256, project_id }
  const begun = await app.send({ method: 'POST', path: '/v1/template-uploads', json }, deadline, readJson<wire.TemplateUpload>)
  return sendParts(app, begun, blob, deadline, options.onProgress)
}

async function sendParts(
  app: App,
  upload: wire.TemplateUpload,
  tar: Blob,
  deadline: Deadline,
  onProgress: UploadOptions['onProgress'],
): Promise<wire.TemplateUpload> {
  const path = `/v1/template-uploads/${upload.id}`
  let seen = upload
  for (let attempt = 0; seen.state !== 'complete';) {
    const { received_bytes: offset } = seen
    const body = tar.slice(offset, offset + PART_BYTES)
    const headers = { 'content-type': 'application/octet-stream' }
    try {
      seen = await app.send({ method: 'PUT', path, query: { offset }, headers, body }, deadline, readJson<wire.TemplateUpload>)
      attempt = 0
      onProgress?.(seen.received_bytes)
    } catch (error) {
      if (deadline.signal.aborted || !(error instanceof BerthError) || !mayRepeat(error, 'read')) throw error
      await pause(waitBefore(attempt, error.retryAfterMs), deadline)
      attempt += 1
      // The part may have arrived although its answer was lost: ask for the next offset.
      seen = await app.send({ method: 'GET', path }, deadline, readJson<wire.TemplateUpload>)
    }
  }
  return seen
}

async function digestOf(blob: Blob): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer()))
  return [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
