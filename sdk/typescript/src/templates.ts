import { type App, OPERATION_MS, PREFER_WAIT } from './app.ts'
import { draftsOf, type Start } from './drafts.ts'
import { BerthError, DeadlineError } from './errors.ts'
import { type List, listOf } from './list.ts'
import type { Of } from './nouns.ts'
import { type Deadline, mayRepeat, pause, waitBefore } from './retry.ts'
import type * as wire from './schemas.ts'
import { type CallOptions, deadlineFor, readJson } from './transport.ts'
import type { Workspace } from './workspace.ts'

/** Size of an upload's part. The API accepts 64 MiB, but a broken part is sent again as a whole. */
const PART_BYTES = 8 << 20
const UPLOAD_MS = 60 * 60_000
/** A build may take three hours. */
const BUILD_MS = 4 * 60 * 60_000
const LOG_MS = 500

export interface UploadOptions extends Of {
  /** Digest of the whole tar, in hex. Default: computed here, which needs the whole tar in memory. */
  sha256?: string
  /** Called with the number of received bytes after each part. */
  onProgress?: (received_bytes: number) => void
}

export interface PackagesQuery {
  query?: string
  name?: string
  architecture?: 'amd64' | 'arm64'
  limit?: number
}

/** @param find returns a workspace by id */
export function templatesOf(app: App, find: (workspace_id: string, options?: CallOptions) => Promise<Workspace>) {
  const of = (slug: string, below = '') => `/v1/templates/${encodeURIComponent(slug)}${below}`
  const build = (id: string, below = '') => `/v1/template-builds/${id}${below}`
  const version = (slug: string, version: number, below = '') => of(slug, `/versions/${version}${below}`)
  const start: Start = async (path, json, options) => {
    const deadline = deadlineFor(options, OPERATION_MS)
    const asked = { method: 'POST', path, json, headers: PREFER_WAIT, key: true }
    const { workspace, operation } = await app.send(asked, deadline, readJson<wire.OpenResponse>)
    if (operation !== null) await app.succeeded(operation, deadline)
    return find(workspace.id, options)
  }
  return {
    /** The next version of a template, edited in a workspace. */
    drafts: draftsOf(app, start),
    list: (options?: CallOptions): List<wire.Template> => listOf(app, '/v1/templates', {}, options),
    get: (slug: string, options?: CallOptions): Promise<wire.Template> => app.call({ method: 'GET', path: of(slug) }, options),
    versions: (slug: string, options?: CallOptions): List<wire.TemplateVersion> => listOf(app, of(slug, '/versions'), {}, options),
    version: (slug: string, number: number, options?: CallOptions): Promise<wire.TemplateVersion> =>
      app.call({ method: 'GET', path: version(slug, number) }, options),
    publish: (slug: string, number: number, options?: CallOptions): Promise<wire.TemplateVersion> =>
      app.call({ method: 'POST', path: version(slug, number, '/publish'), json: {} }, options),
    archive: (slug: string, number: number, options?: CallOptions): Promise<wire.TemplateVersion> =>
      app.call({ method: 'POST', path: version(slug, number, '/archive'), json: {} }, options),
    /** Archives the template with all its versions. This cannot be undone. Only for a person's session. */
    archiveTemplate: (slug: string, options?: CallOptions): Promise<wire.Template> =>
      app.call({ method: 'POST', path: of(slug, '/archive'), json: {} }, options),
    /** Lists one directory of a version. Default: `/`. */
    files: (slug: string, number: number, { path, ...options }: CallOptions & { path?: string } = {}): List<wire.TemplateFile> =>
      listOf(app, version(slug, number, '/files'), { path }, options),
    /** Compares the files of two versions. `against`: a number, or `slug@number`; default: the version before. */
    diff: (
      slug: string,
      number: number,
      { against, ...options }: CallOptions & { against?: number | string } = {},
    ): List<wire.TemplateFileChange> => listOf(app, version(slug, number, '/diff'), { against }, options),
    /** Returns Debian packages for recipes: the first page, best matches first. */
    packages: async (query: PackagesQuery = {}, options?: CallOptions): Promise<wire.TemplatePackage[]> =>
      (await app.call<wire.TemplatePackageList>({ method: 'GET', path: '/v1/template-packages', query }, options)).data,
    /** Returns the languages for recipes, with their versions. */
    languages: async (options?: CallOptions): Promise<wire.TemplateLanguage[]> =>
      (await app.call<wire.TemplateLanguageList>({ method: 'GET', path: '/v1/template-languages' }, options)).data,
    /** Uploads a tar, plain or gzip, for builds to copy files from. Resumes after a lost connection. */
    async upload(tar: Uint8Array | Blob, options: UploadOptions = {}): Promise<wire.TemplateUpload> {
      const blob = tar instanceof Blob ? tar : new Blob([new Uint8Array(tar)])
      const deadline = deadlineFor(options, UPLOAD_MS)
      const sha256 = options.sha256 ?? (await digestOf(blob))
      const project_id = options.project ?? (await app.projectId())
      const json: wire.TemplateUploadRequest = { size_bytes: blob.size, sha256, project_id }
      const begun = await app.send({ method: 'POST', path: '/v1/template-uploads', json }, deadline, readJson<wire.TemplateUpload>)
      return sendParts(app, begun, blob, deadline, options.onProgress)
    },
    /** Deletes an upload that no build needs any more. */
    deleteUpload: (upload_id: string, options?: CallOptions): Promise<void> =>
      app.call({ method: 'DELETE', path: `/v1/template-uploads/${upload_id}`, repeats: 'keyed' }, options),
    /** Starts a build from a recipe or a Dockerfile. Creates the template where it does not exist. */
    async build(slug: string, request: wire.TemplateBuildRequest, options?: Of): Promise<wire.TemplateBuild> {
      const json = { project_id: options?.project ?? (await app.projectId()), ...request }
      const begins = { method: 'POST', path: of(slug, '/builds'), json, key: true }
      return (await app.call<wire.TemplateBuildStarted>(begins, options)).build
    },
    getBuild: (build_id: string, options?: CallOptions): Promise<wire.TemplateBuild> =>
      app.call({ method: 'GET', path: build(build_id) }, options),
    /** Yields the log of a build until it is complete. */
    async *buildLog(build_id: string, { offset = 0, ...options }: CallOptions & { offset?: number } = {}): AsyncGenerator<string, void> {
      const deadline = deadlineFor(options, BUILD_MS)
      try {
        for (let at = offset; ;) {
          const request = { method: 'GET', path: build(build_id, '/log'), query: { offset: at } }
          const { text, next_offset, complete } = await app.send(request, deadline, readJson<wire.TemplateBuildLog>)
          if (text !== '') yield text
          if (complete) return
          if (next_offset === at) await pause(LOG_MS, deadline)
          at = next_offset
        }
      } catch (error) {
        throw withBuildId(error, build_id)
      }
    },
    /** Returns when the build has ended, with any result. */
    async waitForBuild(build_id: string, options?: CallOptions): Promise<wire.TemplateBuild> {
      const deadline = deadlineFor(options, BUILD_MS)
      try {
        for (let attempt = 0; ; attempt += 1) {
          const request = { method: 'GET', path: build(build_id), headers: PREFER_WAIT }
          const seen = await app.send(request, deadline, readJson<wire.TemplateBuild>)
          if (seen.completed_at !== null) return seen
          await pause(waitBefore(attempt, null), deadline)
        }
      } catch (error) {
        throw withBuildId(error, build_id)
      }
    },
    /** Cancels a build, which then makes no version. */
    cancelBuild: (build_id: string, options?: CallOptions): Promise<wire.TemplateBuild> =>
      app.call({ method: 'POST', path: build(build_id, '/cancel'), json: {}, key: true }, options),
    /** Starts a session workspace of a version, published or not. */
    test: async (slug: string, number: number, request: wire.TestInstanceRequest = {}, options?: Of): Promise<Workspace> =>
      start(version(slug, number, '/test-instances'), { project_id: options?.project ?? (await app.projectId()), ...request }, options),
  }
}

/** Adds the build's id to a deadline error, since the build continues. */
function withBuildId(error: unknown, build_id: string): unknown {
  if (!(error instanceof DeadlineError)) return error
  const message = `The time for this call is over; build ${build_id} goes on: templates.waitForBuild waits for it`
  return new DeadlineError(message, { build_id, cause: error })
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
