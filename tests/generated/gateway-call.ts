import { toolOf } from '../../contract/access.ts'
import { TOOLS, type CellRoute } from '../../contract/route.ts'
import { refusalOf, type Bench } from '../gateway/support/gateway.ts'
import { sampleOf } from './samples.ts'

export interface CallOptions {
  workspace_id?: string
  /** null: the request has no token. */
  token?: string | null
  body?: string
  headers?: Record<string, string>
  query?: string
}

/** @returns for example `200` or `409 conflict/stale_endpoint` */
export async function callRoute(bench: Bench, route: CellRoute, options: CallOptions = {}): Promise<string> {
  const sampled = sampleOf(route, { workspace_id: options.workspace_id ?? bench.workspace_id })
  const { method, json, bytes } = sampled
  const path = options.query === undefined ? sampled.path : `${sampled.path}${sampled.path.includes('?') ? '&' : '?'}${options.query}`
  const tools = TOOLS.filter((tool) => tool === toolOf(route))
  const token = options.token === undefined ? await bench.token(tools.length === 0 ? {} : { tools }) : options.token
  if (route.websocket !== undefined) return callSocket(`${bench.gateway.address}${path}`, token)
  const body = options.body ?? (json === undefined ? bytes : JSON.stringify(json))
  const response = await fetch(`${bench.gateway.address}${path}`, {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(body === undefined ? {} : { body }),
  })
  if (response.status >= 400) return refusalOf(response)
  await response.body?.cancel()
  return String(response.status)
}

/** @returns the refusal before the close, with the status of the close code; `101` without one */
function callSocket(url: string, token: string | null): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url.replace('http:', 'ws:'), ['berth.v1', ...(token === null ? [] : [`bearer.${token}`])])
    let said = '101'
    socket.addEventListener('message', ({ data }: MessageEvent) => {
      const { type, error } = JSON.parse(String(data)) as { type: string; error: { code: string; details?: { reason?: string } } }
      if (type === 'error') said = `${error.code}${error.details?.reason === undefined ? '' : `/${error.details.reason}`}`
      else socket.close()
    })
    socket.addEventListener('close', ({ code }) => resolve(said === '101' ? said : `${code - 4000} ${said}`))
    socket.addEventListener('error', () => reject(new Error(`${url} refused the upgrade`)))
  })
}
