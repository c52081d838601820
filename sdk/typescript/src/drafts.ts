import { type App, OPERATION_MS } from './app.ts'
import { type List, listOf } from './list.ts'
import type { Of } from './nouns.ts'
import type { Deadline } from './retry.ts'
import type * as wire from './schemas.ts'
import { type CallOptions, deadlineFor, readJson, type Request } from './transport.ts'
import type { OperationOptions, Workspace } from './workspace.ts'

/** Asks for a workspace, and returns it when it runs. */
export type Start = (path: string, json: object, options?: CallOptions) => Promise<Workspace>

/** The next version of a template, worked on in a workspace. A template has at most one draft, by its slug. */
export function draftsOf(app: App, start: Start) {
  const of = (slug: string, below = '') => `/v1/templates/${encodeURIComponent(slug)}/draft${below}`
  const operate = async (request: Request, deadline: Deadline, wait = true): Promise<wire.Operation> => {
    const operation = await app.send({ ...request, key: true }, deadline, readJson<wire.Operation>)
    return wait ? app.succeeded(operation, deadline) : operation
  }
  return {
    /** Returns the workspace of the draft when it runs. A template that is not there is made, of the base that is said. */
    open: async (slug: string, request: wire.TemplateDraftRequest = {}, options?: Of): Promise<Workspace> =>
      start(of(slug), { project_id: options?.project ?? (await app.projectId()), ...request }, options),
    get: (slug: string, options?: CallOptions): Promise<wire.TemplateDraft> => app.call({ method: 'GET', path: of(slug) }, options),
    /** Keeps what the draft holds now, and the draft goes on. Returns when it is kept. */
    async capture(slug: string, { label, ...options }: CallOptions & { label?: string } = {}): Promise<wire.DraftState> {
      const json: wire.DraftStateRequest = label === undefined ? {} : { label }
      const deadline = deadlineFor(options, OPERATION_MS)
      const { id } = await operate({ method: 'POST', path: of(slug, '/states'), json }, deadline)
      const call = <T>(request: Request) => app.send<T>(request, deadline, readJson)
      for await (const state of listOf<wire.DraftState>({ call }, of(slug, '/states'))) if (state.operation_id === id) return state
      throw new TypeError('A state that was captured is not among those of the draft')
    },
    /** The newest first. `deleteCheckpoint(state.checkpoint_id)` of the draft's workspace gives one up. */
    states: (slug: string, options?: CallOptions): List<wire.DraftState> => listOf(app, of(slug, '/states'), {}, options),
    /** A session workspace that boots on a state: on the newest where `state_id` does not say another. */
    test: (slug: string, request: wire.DraftTestInstanceRequest = {}, options?: CallOptions): Promise<Workspace> =>
      start(of(slug, '/test-instances'), request, options),
    /** Those that live, unless `include_ended` asks for all. */
    testInstances: (slug: string, { include_ended, ...options }: CallOptions & { include_ended?: boolean } = {}): List<wire.Workspace> =>
      listOf(app, of(slug, '/test-instances'), { include_ended }, options),
    /** Begins to make a version of a state, or of what the draft holds now. `templates.waitForBuild` waits for it. */
    publish: async (slug: string, request: wire.DraftPublishRequest = {}, options?: CallOptions): Promise<wire.TemplateBuild> =>
      (await app.call<wire.SaveAsTemplateResponse>({ method: 'POST', path: of(slug, '/publish'), json: request, key: true }, options))
        .build,
    /** Deletes the draft with its states. Its test instances end; versions that were published stay. */
    discard: (slug: string, { wait, ...options }: OperationOptions = {}): Promise<wire.Operation> =>
      operate({ method: 'DELETE', path: of(slug) }, deadlineFor(options, OPERATION_MS), wait),
  }
}
