import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { Type } from 'typebox'
import { FileInfo, FileList, WriteResult } from '../../../contract/schemas/cell/file.ts'
import { ExecSession } from '../../../contract/schemas/cell/session.ts'
import type { LiveMachine } from '../machines/table.ts'
import { AGENT_ERROR_BYTES_MAX, guestRefusal, readJson, shape, type Shape } from './agent-answer.ts'
import { AGENT_DEADLINES, openConnections, type AgentConnections, type AgentRequest } from './agent-http.ts'
import { AgentTrouble } from './agent-trouble.ts'

/** machine/internal/wire/agent.go: ExecRequest. */
export interface AgentExec {
  session_id: string
  fingerprint: string
  argv: string[]
  cwd: string
  user: string
  env: Record<string, string>
  stdin_base64?: string
  timeout_ms?: number
  kill_grace_ms?: number
}

export interface Answer<T> {
  status: number
  body: T
}

const JSON_BYTES_MAX = 2 << 20
const LIST_BYTES_MAX = 32 << 20

const session = shape(ExecSession)
const fileInfo = shape(FileInfo)
const fileList = shape(FileList)
/** The agent leaves a revision that it has not computed empty. */
const writeResult = shape(
  Type.Object({ ...WriteResult.properties, revision: Type.Optional(Type.String({ pattern: '^([0-9a-f]{64})?$' })) }),
)

/**
 * The verbs of one machine's agent. Each throws a Failure when the agent refuses, and AgentTrouble when it cannot be asked or
 * does not answer as an agent does: nothing that it says is trusted further than its shape.
 */
export interface AgentLink {
  startExec(exec: AgentExec): Promise<Answer<ExecSession>>
  getExec(session_id: string): Promise<ExecSession>
  signalExec(session_id: string, signal: string): Promise<ExecSession>
  cancelExec(session_id: string): Promise<ExecSession>
  /** The raw frames; output-frames.ts reads them. */
  openOutput(
    session_id: string,
    from: { stdout_offset: number; stderr_offset: number; follow: boolean },
    signal: AbortSignal,
  ): Promise<IncomingMessage>
  openFile(path: string, part: { offset?: number; length?: number }, signal: AbortSignal): Promise<IncomingMessage>
  writeFile(
    path: string,
    options: WriteOptions,
    body: Readable,
    content_length: number | undefined,
    signal: AbortSignal,
  ): Promise<WriteResult>
  removeFile(path: string, recursive: boolean): Promise<void>
  statFile(path: string, revision: boolean): Promise<FileInfo>
  listFiles(path: string, limit: number): Promise<FileList>
  makeDirectory(request: { path: string; parents?: boolean; mode?: string }): Promise<FileInfo>
  moveFile(request: { from: string; to: string; overwrite?: boolean }): Promise<FileInfo>
}

export interface WriteOptions {
  append?: boolean
  mode?: string
  create_parents?: boolean
}

export interface AgentLinks {
  /** The link to one incarnation of a machine. `gone` ends its connections: nothing of it may reach the next one. */
  of(workspace_id: string, machine: LiveMachine, gone: AbortSignal): AgentLink
  close(): void
}

export function createAgentLinks(deadlines = AGENT_DEADLINES): AgentLinks {
  const open = new Map<string, { link: AgentLink; connections: AgentConnections }>()
  const end = (name: string) => {
    open.get(name)?.connections.close()
    open.delete(name)
  }
  return {
    of(workspace_id, machine, gone) {
      const name = `${workspace_id} ${machine.epoch} ${machine.fence} ${machine.address}`
      const known = open.get(name)
      if (known !== undefined) return known.link
      const connections = openConnections(machine, deadlines)
      const link = createLink(connections)
      open.set(name, { link, connections })
      if (gone.aborted) end(name)
      else gone.addEventListener('abort', () => end(name), { once: true })
      return link
    },
    close: () => [...open.keys()].forEach(end),
  }
}

function createLink(connections: AgentConnections): AgentLink {
  const open = async (asked: AgentRequest) => {
    const response = await connections.send(asked)
    const status = response.statusCode ?? 0
    if (status >= 200 && status < 300) return response
    throw await refusalOf(response, status)
  }
  const ask = async <T>(asked: AgentRequest, wanted: Shape<T>, bytes_max = JSON_BYTES_MAX): Promise<Answer<T>> => {
    const response = await open(asked)
    return { status: response.statusCode ?? 0, body: wanted.parse(await readJson(response, bytes_max)) }
  }
  const get = async <T>(path: string, wanted: Shape<T>, bytes_max?: number) =>
    (await ask({ method: 'GET', path, safe: true }, wanted, bytes_max)).body
  const post = async <T>(path: string, body: object | undefined, wanted: Shape<T>) =>
    (await ask({ method: 'POST', path, safe: false, body: json(body ?? {}) }, wanted)).body
  return {
    // Safe: a session id starts once, however often it is asked.
    startExec: (exec) => ask({ method: 'POST', path: '/exec', safe: true, body: json(exec) }, session),
    getExec: (id) => get(`/exec/${encodeURIComponent(id)}`, session),
    signalExec: (id, signal) => post(`/exec/${encodeURIComponent(id)}/signal`, { signal }, session),
    cancelExec: (id) => post(`/exec/${encodeURIComponent(id)}/cancel`, undefined, session),
    openOutput: (id, from, signal) =>
      open({ method: 'GET', path: `/exec/${encodeURIComponent(id)}/output?${query({ ...from })}`, safe: true, signal }),
    openFile: (path, part, signal) =>
      open({ method: 'GET', path: `/files?${query({ path, ...part, revision: true })}`, safe: true, signal }),
    async writeFile(path, options, body, content_length, signal) {
      const asked: AgentRequest = { method: 'PUT', path: `/files?${query({ path, ...options })}`, safe: false, body, signal }
      const { revision, ...written } = (await ask(content_length === undefined ? asked : { ...asked, content_length }, writeResult)).body
      return revision ? { ...written, revision } : written
    },
    async removeFile(path, recursive) {
      const response = await open({ method: 'DELETE', path: `/files?${query({ path, recursive })}`, safe: false })
      response.resume()
    },
    statFile: (path, revision) => get(`/files/stat?${query({ path, revision })}`, fileInfo),
    listFiles: (path, limit) => get(`/files/list?${query({ path, limit })}`, fileList, LIST_BYTES_MAX),
    makeDirectory: (wanted) => post('/files/mkdir', wanted, fileInfo),
    moveFile: (wanted) => post('/files/move', wanted, fileInfo),
  }
}

/** 401 and 503 are about the link itself (a key that is not known, an agent that is not ready): nothing was executed. */
async function refusalOf(response: IncomingMessage, status: number): Promise<Error> {
  if (status === 401 || status === 503) {
    response.resume()
    return new AgentTrouble('unreachable', `The agent does not serve this incarnation (${status})`)
  }
  if (status < 400 || status > 599) {
    response.destroy()
    return new AgentTrouble('nonsense', `The agent answered with status ${status}`)
  }
  return guestRefusal(await readJson(response, AGENT_ERROR_BYTES_MAX))
}

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value))
}

function query(values: Record<string, string | number | boolean | undefined>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join('&')
}
