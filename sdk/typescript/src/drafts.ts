import { type App, OPERATION_MS } from './app.ts'
import { type List, listOf } from './list.ts'
import type { Of } from './nouns.ts'
import type { Deadline } from './retry.ts'
import type * as wire from './schemas.ts'
import { type CallOptions, deadlineFor, readJson, type Request } from './transport.ts'
import type { OperationOptions, Workspace } from './workspace.ts'

export type Start = (path: string, json: object, options?: CallOptions) => Promise<Workspace>

/** Drafts: the next version of a template, edited in a workspace. A template has at most one draft, named by its slug. */
export function draftsOf(app: App, start: Start) {
  const of = (slug: string, below = '') => `/v1/templates/${encodeURIComponent(slug)}/draft${below}`
  const operate = async (request: Request, deadline: Deadline, wait = true): Promise<wire.Operation> => {
    const operation = await app.send({ ...request, key: true }, deadline, readJson<wire.Operation>)
    return wait ? app.succeeded(operation, deadline) : operation
  }
  return {
    /** Opens the draft and returns its workspace when it runs. Creates the template from the given base where it does not exist. */
    open: async (slug: string, request: wire.TemplateDraftRequest = {}, options?: Of): Promise<Workspace> =>
      start(of(slug), { project_id: options?.project ?? (await app.projectId()), ...request }, options),
    get: (slug: string, options?: CallOptions): Promise<wire.TemplateDraft> => app.call({ method: 'GET', path: of(slug) }, options),
    /** Captures the draft's present state, and returns when it is stored. The draft continues. */
    async capture(slug: string, { label, ...options }: CallOptions & { label?: string } = {}): Promise<wire.DraftState> {
      const json: wire.DraftStateRequest = label === undefined ? {} : { label }
      const deadline = deadlineFor(options, OPERATION_MS)
      const { id } = await operate({ method: 'POST', path: of(slug, '/states'), json }, deadline)
      const call = <T>(request: Request) => app.send<T>(request, deadline, readJson)
      for await (const state of listOf<wire.DraftState>({ call }, of(slug, '/states'))) if (state.operation_id === id) return state
      throw new TypeError('A state that was captured is not among those of the draft')
    },
    /** Lists states, newest first. `deleteCheckpoint(state.checkpoint_id)` on the draft's workspace deletes one. */
    states: (slug: string, options?: CallOptions): List<wire.DraftState> => listOf(app, of(slug, '/states'), {}, options),
    /** Starts a session workspace from the state `state_id`; default: the newest. */
    test: (slug: string, request: wire.DraftTestInstanceRequest = {}, options?: CallOptions): Promise<Workspace> =>
      start(of(slug, '/test-instances'), request, options),
    /** Lists live test instances; with `include_ended` all of them. */
    testInstances: (slug: string, { include_ended, ...options }: CallOptions & { include_ended?: boolean } = {}): List<wire.Workspace> =>
      listOf(app, of(slug, '/test-instances'), { include_ended }, options),
    /** Starts a build of a version from a state, or from the draft's present state. `templates.waitForBuild` waits for it. */
    publish: async (slug: string, request: wire.DraftPublishRequest = {}, options?: CallOptions): Promise<wire.TemplateBuild> =>
      (await app.call<wire.SaveAsTemplateResponse>({ method: 'POST', path: of(slug, '/publish'), json: request, key: true }, options))
        .build,
    /** Deletes the draft and its states, and ends its test instances. Published versions stay. */
    discard: (slug: string, { wait, ...options }: OperationOptions = {}): Promise<wire.Operation> =>
      operate({ method: 'DELETE', path: of(slug) }, deadlineFor(options, OPERATION_MS), wait),
  }
}
