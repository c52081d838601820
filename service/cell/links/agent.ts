import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Type } from 'typebox'
import { Changes } from '../../../contract/schemas/cell/change.ts'
import { FileInfo, FileList, type FilePatch, type PatchResult, WriteResult } from '../../../contract/schemas/cell/file.ts'
import { type FileSearch, SearchResult } from '../../../contract/schemas/cell/search.ts'
import { GitCommitted, GitFile, GitHead, GitStatus } from '../../../contract/schemas/cell/git.ts'
import { Process, ProcessList } from '../../../contract/schemas/cell/process.ts'
import { ExecSession } from '../../../contract/schemas/cell/session.ts'
import { TerminalSession, type TerminalSize } from '../../../contract/schemas/cell/terminal.ts'
import type { LiveMachine } from '../machines/table.ts'
import { AGENT_ERROR_BYTES_MAX, guestRefusal, readJson, shape, type Shape, wholeJson } from './agent-answer.ts'
import { patchRefusal, patchResult } from './agent-patch.ts'
import { linkOf } from './agent-protocol.ts'
import { AGENT_DEADLINES, openConnections, type AgentConnections, type AgentPlace, type AgentRequest } from './agent-http.ts'
import { AgentTrouble } from './agent-trouble.ts'
import { createStartedStreams } from './started-streams.ts'
import { readStarted } from './started.ts'

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

/** machine/internal/wire/agent.go: PtyRequest. */
export type AgentTerminal = Pick<AgentExec, 'session_id' | 'fingerprint' | 'argv' | 'cwd' | 'user' | 'env'> & TerminalSize
/** machine/internal/wire/git.go: GitRequest. */
export interface AgentGit {
  path: string
  env: Record<string, string>
  timeout_ms: number
}

export interface AgentClone extends AgentGit {
  url: string
  branch?: string
  depth?: number
  authorization?: string
}

export interface AgentCommit extends AgentGit {
  message: string
  paths?: string[]
  author?: { name: string; email: string }
}

/** machine/internal/wire/browser.go: BrowserRequest. */
export interface AgentVisit {
  url: string
  width: number
  height: number
  wait_until: string
  wait_ms: number
  timeout_ms: number
  env: Record<string, string>
  full_page?: boolean
  format?: string
}

export interface Answer<T> {
  status: number
  body: T
}

const JSON_BYTES_MAX = 2 << 20
const LIST_BYTES_MAX = 32 << 20
const FRAMES_TYPE = 'application/octet-stream'
/** The agent bounds an answer by half of this. */
const SEARCH_BYTES_MAX = 16 << 20
/** A thousand paths of 4,096 bytes, escaped. */
const CHANGES_BYTES_MAX = 32 << 20
const ANSWER_MARGIN_MS = 10_000

const session = shape(ExecSession)
const terminal = shape(TerminalSession)
const fileInfo = shape(FileInfo)
const fileList = shape(FileList)
const searchResult = shape(SearchResult)
const processList = shape(ProcessList)
const process = shape(Process)
const gitHead = shape(GitHead)
const gitStatus = shape(GitStatus)
const gitFile = shape(GitFile)
const gitCommitted = shape(GitCommitted)
/** The agent has a name of its own for the page. */
const { data: pageOfChanges, ...restOfChanges } = Changes.properties
const changesPage = shape(Type.Object({ changes: pageOfChanges, ...restOfChanges }))
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
  openTerminal(asked: AgentTerminal): Promise<Answer<TerminalSession>>
  getTerminal(session_id: string): Promise<TerminalSession>
  closeTerminal(session_id: string): Promise<TerminalSession>
  resizeTerminal(session_id: string, size: TerminalSize): Promise<TerminalSession>
  /** @param data base64 */
  typeIntoTerminal(session_id: string, data: string): Promise<TerminalSession>
  /** Frames both ways; terminal-frames.ts knows them. */
  attachTerminal(session_id: string, offset: number, signal: AbortSignal): Promise<Socket>
  openFile(path: string, part: { offset?: number; length?: number }, signal: AbortSignal): Promise<IncomingMessage>
  writeFile(
    path: string,
    options: WriteOptions,
    body: Readable,
    sent: { content_length: number | undefined; key: string | null },
    signal: AbortSignal,
  ): Promise<WriteResult>
  removeFile(path: string, recursive: boolean): Promise<void>
  statFile(path: string, revision: boolean): Promise<FileInfo>
  listFiles(path: string, limit: number): Promise<FileList>
  makeDirectory(request: { path: string; parents?: boolean; mode?: string }): Promise<FileInfo>
  moveFile(request: { from: string; to: string; overwrite?: boolean }): Promise<FileInfo>
  searchFiles(request: Required<FileSearch>, signal: AbortSignal): Promise<SearchResult>
  patchFile(request: FilePatch, key: string | null): Promise<PatchResult>
  listChanges(filter: ChangesFilter, signal: AbortSignal): Promise<Changes>
  listProcesses(limit: number): Promise<ProcessList>
  signalProcess(pid: string, signal: string): Promise<void>
  cloneRepository(asked: AgentClone, signal: AbortSignal): Promise<GitHead>
  gitStatus(asked: AgentGit, signal: AbortSignal): Promise<GitStatus>
  commitChanges(asked: AgentCommit, signal: AbortSignal): Promise<GitCommitted>
  /** The bytes of a picture or a page. */
  openBrowser(what: 'screenshot' | 'content', visit: AgentVisit, signal: AbortSignal): Promise<IncomingMessage>
}

/** What can be asked of a disk that no guest runs on. */
export type FileReads = Pick<AgentLink, 'openFile' | 'statFile' | 'listFiles' | 'searchFiles'>

export interface ChangesFilter {
  path_prefix?: string
  limit: number
  cursor?: string
  hash: boolean
  summary: boolean
}

export interface WriteOptions {
  append?: boolean
  mode?: string
  create_parents?: boolean
}

export interface AgentLinks {
  /** The link to one incarnation of a machine. `gone` ends its connections: nothing of it may reach the next one. */
  of(workspace_id: string, machine: LiveMachine, gone: AbortSignal): AgentLink
  /** Has a connection ready for the first call, which is often a moment away. Never fails: that call says what is wrong. */
  greet(workspace_id: string, machine: LiveMachine, gone: AbortSignal): void
  close(): void
}

export interface OpenLink {
  link: AgentLink
  close(): void
}

/** One link that its caller closes. */
export function openLink(machine: AgentPlace, deadlines = AGENT_DEADLINES): OpenLink {
  const connections = openConnections(machine, deadlines)
  return { link: linkOf(createLink(connections, deadlines), machine.agent_protocol), close: connections.close }
}

export function createAgentLinks(deadlines = AGENT_DEADLINES): AgentLinks {
  const open = new Map<string, { machine: string; link: AgentLink; connections: AgentConnections }>()
  const end = (epoch: string) => {
    open.get(epoch)?.connections.close()
    open.delete(epoch)
  }
  const to = (workspace_id: string, machine: LiveMachine, gone: AbortSignal) => {
    const epoch = `${workspace_id} ${machine.epoch}`
    const name = `${machine.fence} ${machine.address} ${machine.stood_still}`
    const known = open.get(epoch)
    if (known?.machine === name) return known
    // Nobody used what stood still. Its connections may have been given up on either side, which only the next call would notice.
    known?.connections.close()
    const connections = openConnections(machine, deadlines)
    const link = linkOf(createLink(connections, deadlines), machine.agent_protocol)
    const made = { machine: name, link, connections }
    open.set(epoch, made)
    if (gone.aborted) end(epoch)
    else if (known === undefined) gone.addEventListener('abort', () => end(epoch), { once: true })
    return made
  }
  return {
    of: (workspace_id, machine, gone) => to(workspace_id, machine, gone).link,
    greet(workspace_id, machine, gone) {
      to(workspace_id, machine, gone)
        .connections.send({ method: 'GET', path: '/incarnation', safe: true })
        .then((response) => readJson(response, JSON_BYTES_MAX))
        .catch(() => undefined)
    },
    close: () => [...open.keys()].forEach(end),
  }
}

function createLink(connections: AgentConnections, deadlines: typeof AGENT_DEADLINES): AgentLink {
  const started = createStartedStreams()
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
  /** A call with a time of its own, which the agent keeps; the margin is for its answer. */
  const timed = (path: string, body: { timeout_ms: number }, signal: AbortSignal): AgentRequest => {
    const answer_ms = Math.min(body.timeout_ms + ANSWER_MARGIN_MS, deadlines.longest_ms)
    return { method: 'POST', path, safe: false, body: json(body), signal, answer_ms }
  }
  const work = async <T>(path: string, body: { timeout_ms: number }, signal: AbortSignal, wanted: Shape<T>, bytes_max?: number) =>
    (await ask(timed(path, body, signal), wanted, bytes_max)).body
  return {
    // Safe: a session id starts once, however often it is asked. Whoever starts a command follows it as a rule: its output comes with
    // the answer, and openOutput finds it.
    async startExec(exec) {
      const path = started.open() ? '/exec?follow=true' : '/exec'
      const response = await open({ method: 'POST', path, safe: true, body: json(exec) })
      const status = response.statusCode ?? 0
      if (response.headers['content-type'] !== FRAMES_TYPE) {
        return { status, body: session.parse(await readJson(response, JSON_BYTES_MAX)) }
      }
      const body = await readStarted(response, deadlines.header_ms, (record) => session.parse(wholeJson(record)))
      started.keep(exec.session_id, response)
      return { status, body }
    },
    getExec: (id) => get(`/exec/${encodeURIComponent(id)}`, session),
    signalExec: (id, signal) => post(`/exec/${encodeURIComponent(id)}/signal`, { signal }, session),
    cancelExec: (id) => post(`/exec/${encodeURIComponent(id)}/cancel`, undefined, session),
    async openOutput(id, from, signal) {
      const begun = from.follow && from.stdout_offset === 0 && from.stderr_offset === 0 ? started.take(id) : undefined
      return begun ?? open({ method: 'GET', path: `/exec/${encodeURIComponent(id)}/output?${query({ ...from })}`, safe: true, signal })
    },
    openTerminal: (asked) => ask({ method: 'POST', path: '/pty', safe: true, body: json(asked) }, terminal),
    getTerminal: (id) => get(`/pty/${encodeURIComponent(id)}`, terminal),
    closeTerminal: async (id) => (await ask({ method: 'DELETE', path: `/pty/${encodeURIComponent(id)}`, safe: true }, terminal)).body,
    resizeTerminal: (id, size) => post(`/pty/${encodeURIComponent(id)}/resize`, size, terminal),
    typeIntoTerminal: (id, data) => post(`/pty/${encodeURIComponent(id)}/input`, { data }, terminal),
    async attachTerminal(id, offset, signal) {
      const path = `/pty/${encodeURIComponent(id)}/attach?${query({ offset })}`
      const { response, socket } = await connections.switch({ method: 'POST', path, safe: true, signal, upgrade: 'berth-frames' })
      if (socket !== null) return socket
      throw await refusalOf(response, response.statusCode ?? 0)
    },
    openFile: (path, part, signal) =>
      open({ method: 'GET', path: `/files?${query({ path, ...part, revision: true })}`, safe: true, signal }),
    async writeFile(path, options, body, { content_length, key }, signal) {
      const asked: AgentRequest = { method: 'PUT', path: `/files?${query({ path, ...options })}`, safe: false, body, signal }
      if (content_length !== undefined) asked.content_length = content_length
      if (key !== null) asked.key = key
      const { revision, ...written } = (await ask(asked, writeResult)).body
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
    searchFiles: async (wanted, signal) =>
      (await ask({ method: 'POST', path: '/files/search', safe: true, body: json(wanted), signal }, searchResult, SEARCH_BYTES_MAX)).body,
    async patchFile(wanted, key) {
      const asked: AgentRequest = { method: 'POST', path: '/files/patch', safe: false, body: json(wanted) }
      // Safe with a key: the agent does it once, however often it is asked.
      try {
        return (await ask(key === null ? asked : { ...asked, key, safe: true }, patchResult)).body
      } catch (error) {
        throw patchRefusal(error)
      }
    },
    async listChanges(filter, signal) {
      const asked: AgentRequest = { method: 'GET', path: `/changes?${query({ ...filter })}`, safe: true, signal }
      const { changes: data, ...page } = (await ask(asked, changesPage, CHANGES_BYTES_MAX)).body
      return { data, ...page }
    },
    cloneRepository: (asked, signal) => work('/git/clone', asked, signal, gitHead),
    async gitStatus(asked, signal) {
      const status = await work('/git/status', asked, signal, gitStatus, LIST_BYTES_MAX)
      return { ...status, files: status.files.map((each) => gitFile.parse(each)) }
    },
    commitChanges: (asked, signal) => work('/git/commit', asked, signal, gitCommitted),
    openBrowser: (what, visit, signal) => open(timed(`/browser/${what}`, visit, signal)),
    async listProcesses(limit) {
      const { processes, truncated } = await get(`/processes?${query({ limit })}`, processList, LIST_BYTES_MAX)
      return { processes: processes.map((each) => process.parse(each)), truncated }
    },
    async signalProcess(pid, signal) {
      const response = await open({ method: 'POST', path: `/processes/${pid}/signal`, safe: false, body: json({ signal }) })
      response.resume()
    },
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
