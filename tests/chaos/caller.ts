import { randomUUID } from 'node:crypto'
import { call, type Answer, type RequestOptions } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import type { History } from './history.ts'
import type { Random } from './random.ts'
import { patience } from '../support/patience.ts'

export interface Operation {
  id: string
  kind: string
  state: string
  workspace_id: string
  error: { code: string } | null
  result: Record<string, unknown> | null
}

export interface Caller {
  api<T>(path: string, options?: RequestOptions): Promise<Answer<T>>
  /** Sometimes repeats the change, which must name the same operation. */
  change<T>(path: string, options: RequestOptions): Promise<Answer<T>>
  ended(operation_id: string): Promise<Operation>
  /** Calls once, because an interrupted call may have taken effect. null: no answer. */
  tool(url: string, options: RequestOptions): Promise<Answer<{ error?: { code: string } }> | null>
}

const PATIENCE_MS = 90_000
const ENDED = ['succeeded', 'failed', 'canceled']

export function createCaller(service: Service, history: History, random: Random): Caller {
  const api = async <T>(path: string, options: RequestOptions = {}): Promise<Answer<T>> => {
    for (const deadline_ms = performance.now() + patience(PATIENCE_MS); ; await new Promise((resolve) => setTimeout(resolve, 100))) {
      const signal = AbortSignal.timeout(30_000)
      const answer = await call<T>(`${service.base_url}${path}`, { token: service.api_key, signal, ...options }).catch(() => null)
      if (answer !== null && answer.status < 500 && answer.status !== 429) return answer
      if (performance.now() > deadline_ms) {
        history.violate('N1: a call was not answered', { path, status: answer?.status ?? null, body: answer?.body ?? null })
        throw new Error(`${path} was never answered`)
      }
    }
  }
  return {
    api,
    async change(path, options) {
      const asked = { ...options, headers: { ...options.headers, 'idempotency-key': randomUUID() } }
      history.count(`asked_${path.split('/')[4] ?? options.method ?? 'open'}`)
      const first = await api<{ id?: string; operation?: { id: string } | null }>(path, asked)
      const operation_id = first.body.operation?.id ?? first.body.id
      if (first.status === 202 && operation_id !== undefined) history.accepted.push({ path, options: asked, operation_id })
      if (first.status === 202 && random.next() < 0.2) {
        const repeat = await api<{ id?: string; operation?: { id: string } | null }>(path, asked)
        const [a, b] = [first, repeat].map(({ body }) => body.operation?.id ?? body.id)
        if (a !== b) history.violate('I8: a repeat named another operation', { path, first: first.body, repeat: repeat.body })
      }
      return first as Answer<never>
    },
    async ended(operation_id) {
      for (const deadline_ms = performance.now() + patience(PATIENCE_MS); performance.now() < deadline_ms;) {
        const { status, body } = await api<Operation>(`/v1/operations/${operation_id}`, { headers: { prefer: 'wait=10' } })
        if (status === 404) history.violate('N1: an acknowledged operation is gone', { operation_id })
        if (status === 404 || ENDED.includes(body.state)) return body
      }
      history.violate('I2: an operation does not end', { operation_id })
      throw new Error(`operation ${operation_id} does not end`)
    },
    tool: (url, options) => call<{ error?: { code: string } }>(url, { signal: AbortSignal.timeout(20_000), ...options }).catch(() => null),
  }
}
