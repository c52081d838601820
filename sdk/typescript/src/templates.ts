import { type App, OPERATION_MS, PREFER_WAIT } from './app.ts'
import { draftsOf, type Start } from './drafts.ts'
import { type List, listOf } from './list.ts'
import type { Of } from './nouns.ts'
import type * as wire from './schemas.ts'
import { buildsOf } from './template-builds.ts'
import { uploadsOf } from './template-uploads.ts'
import { type CallOptions, deadlineFor, readJson } from './transport.ts'
import type { Workspace } from './workspace.ts'

export interface PackagesQuery {
  query?: string
  name?: string
  architecture?: 'amd64' | 'arm64'
  limit?: number
}

type FindWorkspace = (workspace_id: string, options?: CallOptions) => Promise<Workspace>
/** Named by their parts: the comments of their methods stay in the published types. */
type Templates = ReturnType<typeof catalogOf> & ReturnType<typeof uploadsOf> & ReturnType<typeof buildsOf>

/** @param find returns a workspace by id */
export function templatesOf(app: App, find: FindWorkspace): Templates {
  return { ...catalogOf(app, find), ...uploadsOf(app), ...buildsOf(app) }
}

/** Templates, their versions and what recipes can name. */
function catalogOf(app: App, find: FindWorkspace) {
  const of = (slug: string, below = '') => `/v1/templates/${encodeURIComponent(slug)}${below}`
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
    /** Starts a session workspace of a version, published or not. */
    test: async (slug: string, number: number, request: wire.TestInstanceRequest = {}, options?: Of): Promise<Workspace> =>
      start(version(slug, number, '/test-instances'), { project_id: options?.project ?? (await app.projectId()), ...request }, options),
  }
}
