import type { IncomingMessage } from 'node:http'
import { type AnswerSize, type CallBounds, guestRefusal, readBytes, readJson, type Shape } from './agent-answer.ts'
import { AgentFailure } from './agent-failure.ts'
import { type AgentConnections, type AgentDeadlines, type AgentRequest, isSuccess } from './agent-http.ts'
import { RECORD_VALUES_MAX } from './agent-json.ts'
import type { Answer } from './agent-link.ts'
import { CALL_BYTES } from './buffer-budget.ts'
import type { PrefetchedStreams } from './started-streams.ts'

/** The objects with which calls reach one machine's agent. */
export interface AgentRoute {
  connections: AgentConnections
  deadlines: AgentDeadlines
  started: PrefetchedStreams
}

export type Asked = Omit<AgentRequest, 'signal'>

const ANSWER_MARGIN_MS = 10_000
export const REFUSAL: AnswerSize = { bytes_max: CALL_BYTES, values_max: RECORD_VALUES_MAX }
/** The limit of a record, most of which may be the escaped arguments of a command. */
export const RECORD: AnswerSize = { bytes_max: 1 << 20, values_max: RECORD_VALUES_MAX }
/** 10,000 files of 1,600 bytes, or a search's matches at half of that. A third more values took 270 ms on a loaded computer. */
export const LIST: AnswerSize = { bytes_max: 16 << 20, values_max: 150_000 }

export async function open(route: AgentRoute, asked: Asked, bounds: CallBounds): Promise<IncomingMessage> {
  const response = await route.connections.send({ ...asked, signal: bounds.signal })
  const status = response.statusCode ?? 0
  if (isSuccess(status)) return response
  throw await refusalOf(response, status, bounds)
}

export function stream(route: AgentRoute, asked: Asked, bounds: CallBounds): Promise<IncomingMessage> {
  return open(route, { ...asked, streams: true }, bounds)
}

/** The body of an answer as a stream. */
export function download(route: AgentRoute, path: string, bounds: CallBounds): Promise<IncomingMessage> {
  return stream(route, { method: 'GET', path, safe: true }, bounds)
}

export async function ask<T>(route: AgentRoute, asked: Asked, wanted: Shape<T>, bounds: CallBounds, size = RECORD): Promise<Answer<T>> {
  const response = await open(route, asked, bounds)
  return { status: response.statusCode ?? 0, body: wanted.parse(await readJson(response, size, bounds)) }
}

export async function get<T>(route: AgentRoute, path: string, wanted: Shape<T>, bounds: CallBounds, size?: AnswerSize): Promise<T> {
  return (await ask(route, { method: 'GET', path, safe: true }, wanted, bounds, size)).body
}

export async function post<T>(route: AgentRoute, path: string, body: object, wanted: Shape<T>, bounds: CallBounds): Promise<T> {
  return (await ask(route, { method: 'POST', path, safe: false, body: json(body) }, wanted, bounds)).body
}

/** For an answer without a result. */
export async function done(route: AgentRoute, asked: Asked, bounds: CallBounds): Promise<void> {
  await readBytes(await open(route, asked, bounds), CALL_BYTES, bounds)
}

/** For a call whose time limit the agent enforces. The margin is the time for the agent's answer. */
export function timed({ deadlines }: AgentRoute, path: string, body: { timeout_ms: number }): Asked {
  const answer_ms = Math.min(body.timeout_ms + ANSWER_MARGIN_MS, deadlines.longest_ms)
  return { method: 'POST', path, safe: false, body: json(body), answer_ms }
}

/** 401 and 503 concern the link itself (unknown key, agent not ready): nothing was executed. */
export async function refusalOf(response: IncomingMessage, status: number, bounds: CallBounds): Promise<Error> {
  if (status === 401 || status === 503) {
    response.destroy()
    return new AgentFailure('unreachable', `The agent does not serve this incarnation (${status})`)
  }
  if (status < 400 || status > 599) {
    response.destroy()
    return new AgentFailure('nonsense', `The agent answered with status ${status}`)
  }
  return guestRefusal(await readJson(response, REFUSAL, bounds))
}

export function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value))
}

export function query(values: Record<string, string | number | boolean | undefined>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join('&')
}
