import { type App, OPERATION_MS, PREFER_WAIT } from './app.ts'
import { BerthError } from './errors.ts'
import { type Deadline, deadlineOf, endedBy } from './retry.ts'
import type { OpenRequest, OpenResponse, ToolToken, Workspace } from './schemas.ts'
import { type CallOptions, deadlineFor, type Read, readJson, type Repair, type Request, send, type Target } from './transport.ts'

/** A token is renewed this long before it expires. */
const EARLY_MS = 60_000
const RENEW_MS = 60_000

/** Calls to the tools of one workspace. Finds the gateway, and keeps its token valid across suspends, moves and restarts. */
export interface Gateway {
  readonly app: App
  readonly id: string
  view: Workspace
  call<T>(request: Request, options?: CallOptions): Promise<T>
  send<T>(request: Request, deadline: Deadline, read: Read<T>): Promise<T>
  /** Returns the current address and token. */
  target(deadline: Deadline): Promise<Target>
  /** Tries to remove the cause of a refusal: renews the token, waits for an operation, or wakes the workspace. */
  repair: Repair
  renewed(deadline: Deadline): Promise<void>
  /** Resumes the workspace where it is suspended. */
  wake(deadline: Deadline): Promise<void>
  refresh(options?: CallOptions): Promise<Workspace>
}

/** Options of the open, reused when the workspace is opened again. */
export interface ReopenOptions {
  open?: OpenRequest | undefined
  agent_label?: string | undefined
  tools?: OpenRequest['tools'] | undefined
  /** True if a call on a suspended workspace resumes it. */
  wake: boolean
}

interface GatewayToken extends Target {
  good_until: number
}

export function createGateway(app: App, view: Workspace, manner: ReopenOptions, first: ToolToken | null): Gateway {
  const { id } = view
  let pass: GatewayToken | undefined = first ? passOf(first) : undefined
  const { agent_label, tools } = manner
  const grant = { ...(agent_label === undefined ? {} : { agent_label }), ...(tools === undefined ? {} : { tools }) }
  const renew = async () => {
    const asked: Request = { method: 'POST', path: `/v1/workspaces/${id}/tool-tokens`, json: grant, repeats: 'keyed' }
    const token = await app.send(asked, deadlineOf(undefined, RENEW_MS), readJson<ToolToken>)
    pass = passOf(token)
  }
  const resume = async () => {
    const deadline = deadlineOf(undefined, OPERATION_MS)
    for (;;) {
      const { workspace, operation, tool_token } = await started(app, id, grant, manner, deadline)
      gateway.view = workspace
      if (tool_token) pass = passOf(tool_token)
      if (tool_token) return
      if (operation) await app.succeeded(operation, deadline)
      else return renew()
    }
  }
  const [renewed, resumed] = [shared(renew), shared(resume)]
  const gateway: Gateway = {
    app,
    id,
    view,
    call: (request, options) =>
      gateway.send(request, deadlineFor(options), (response) => (response.status === 204 ? (undefined as never) : readJson(response))),
    send(request, deadline, read) {
      let has_new_token = false
      const repair: Repair = async (error, until) => {
        if (error.code !== 'unauthenticated') return gateway.repair(error, until)
        if (has_new_token) return false
        has_new_token = true
        await renewed(until)
        return true
      }
      const path = `/v1/workspaces/${id}${request.path}`
      return send(app.fetch, { request: { ...request, path }, target: gateway.target, deadline, read, repair, contact: app.contact })
    },
    async target(deadline) {
      if (pass === undefined || performance.now() > pass.good_until) await renewed(deadline)
      if (pass === undefined) throw new TypeError('A token that was issued has no place')
      return pass
    },
    async repair(error, deadline) {
      if (error.code === 'stale_epoch' || error.reason === 'stale_endpoint') {
        await renewed(deadline)
        return true
      }
      if (error.code === 'workspace_busy' && error.operationId !== null) {
        await app.ended(error.operationId, deadline)
        return true
      }
      if (error.code !== 'workspace_not_running') return false
      if (!manner.wake) throw error
      await resumed(deadline)
      return true
    },
    renewed: (deadline) => renewed(deadline),
    wake: (deadline) => resumed(deadline),
    async refresh(options) {
      gateway.view = await app.call<Workspace>({ method: 'GET', path: `/v1/workspaces/${id}` }, options)
      return gateway.view
    },
  }
  return gateway
}

/** Requests that the workspace runs. A failed workspace cannot be resumed: it is opened again with the original request. */
async function started(app: App, id: string, grant: object, { open }: ReopenOptions, deadline: Deadline): Promise<OpenResponse> {
  const common = { method: 'POST', headers: PREFER_WAIT, key: true }
  try {
    return await app.send({ ...common, path: `/v1/workspaces/${id}/resume`, json: grant }, deadline, readJson<OpenResponse>)
  } catch (error) {
    if (!(error instanceof BerthError) || error.reason !== 'not_suspended' || open === undefined) throw error
    return app.send({ ...common, path: '/v1/workspaces/open', json: open }, deadline, readJson<OpenResponse>)
  }
}

function passOf({ token, cell_endpoint, issued_at, expires_at }: ToolToken): GatewayToken {
  // Uses only the difference of the server's times: the local clock may differ.
  const lives_ms = Date.parse(expires_at) - Date.parse(issued_at)
  return { url: cell_endpoint, token, good_until: performance.now() + Math.max(lives_ms - EARLY_MS, lives_ms / 2) }
}

/** Shares one run of `work` between concurrent calls. A call that reaches its deadline leaves; the others continue. */
function shared(work: () => Promise<void>): (deadline: Deadline) => Promise<void> {
  let going: Promise<void> | undefined
  return async (deadline) => {
    going ??= work().finally(() => (going = undefined))
    let leave = (): void => undefined
    const left = new Promise<never>((_resolve, reject) => {
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors
      leave = () => reject(endedBy(deadline))
    })
    if (deadline.signal.aborted) leave()
    deadline.signal.addEventListener('abort', leave, { once: true })
    try {
      await Promise.race([going, left])
    } finally {
      deadline.signal.removeEventListener('abort', leave)
    }
  }
}
