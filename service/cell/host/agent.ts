import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Type } from 'typebox'
import { LIMITS } from '../../../contract/limits.ts'
import { Change, Changes } from '../../../contract/schemas/cell/change.ts'
import { FileInfo, FileList, type FilePatch, type PatchResult, WriteResult } from '../../../contract/schemas/cell/file.ts'
import { TarResult } from '../../../contract/schemas/cell/tar.ts'
import type { WatchAsked } from '../../../contract/schemas/cell/watch.ts'
import { SearchResult } from '../../../contract/schemas/cell/search.ts'
import { GitCommitted, GitFile, GitHead, GitStatus } from '../../../contract/schemas/cell/git.ts'
import { Process, ProcessList } from '../../../contract/schemas/cell/process.ts'
import type { CommandList, TerminalList } from '../../../contract/schemas/cell/lists.ts'
import { ExecSession, ExecStdin } from '../../../contract/schemas/cell/session.ts'
import { TerminalSession, type TerminalSize } from '../../../contract/schemas/cell/terminal.ts'
import type { LiveMachine } from './live-machine.ts'
import { type AnswerSize, type CallBounds, guestRefusal, readBytes, readJson, shape, type Shape, within } from './agent-answer.ts'
import { parseAnswer, RECORD_VALUES_MAX } from './agent-json.ts'
import { patchRefusal, patchResult } from './agent-patch.ts'
import { CALL_BYTES, UNLIMITED_BUDGET } from './buffer-budget.ts'
import { linkOf } from './agent-protocol.ts'
import {
  AGENT_DEADLINES,
  isSuccess,
  openConnections,
  type AgentConnections,
  type AgentDeadlines,
  type AgentEndpoint,
  type AgentRequest,
} from './agent-http.ts'
import type {
  AgentClone,
  AgentCommit,
  AgentExec,
  AgentGit,
  AgentTerminal,
  AgentVisit,
  ChangesFilter,
  ChangesFound,
  Facts,
  ListAsked,
  RunsAsked,
  SearchAsked,
  TarOptions,
  WriteOptions,
} from './agent-asked.ts'
import { commandList, facts, listeners, terminalList } from './agent-shapes.ts'
import { AgentFailure } from './agent-failure.ts'
import { createStartedStreams } from './started-streams.ts'
import { readStarted } from './started.ts'

export interface Answer<T> {
  status: number
  body: T
}

const FRAMES_TYPE = 'application/octet-stream'
const ANSWER_MARGIN_MS = 10_000
const REFUSAL: AnswerSize = { bytes_max: CALL_BYTES, values_max: RECORD_VALUES_MAX }
/** The escaped arguments of a command are most of the longest record. */
const RECORD: AnswerSize = { bytes_max: 1 << 20, values_max: RECORD_VALUES_MAX }
/** 10,000 files of 1,600 bytes, or a search's matches at half of that. A third more values took a busy computer 270 ms. */
const LIST: AnswerSize = { bytes_max: 16 << 20, values_max: 150_000 }

const session = shape(ExecSession)
const stdin = shape(ExecStdin)
const terminal = shape(TerminalSession)
const fileInfo = shape(FileInfo)
/** Agents before protocol 7 send no cursor. */
const { next_cursor } = FileList.properties
const fileList = shape(Type.Object({ ...FileList.properties, next_cursor: Type.Optional(next_cursor) }))
const tarResult = shape(TarResult)
const searchResult = shape(
  Type.Object({ ...SearchResult.properties, next_cursor: Type.Optional(next_cursor), on_disk: Type.Optional(Type.Boolean()) }),
)
const processList = shape(ProcessList)
const process = shape(Process)
const gitHead = shape(GitHead)
const gitStatus = shape(GitStatus)
const gitFile = shape(GitFile)
const gitCommitted = shape(GitCommitted)
/** The agent has its own name for the page, and marks changes whose facts are on the disk. */
const { data: _data, ...restOfChanges } = Changes.properties
const changesOfPage = Type.Array(Type.Object({ ...Change.properties, on_disk: Type.Optional(Type.Literal(true)) }), {
  maxItems: LIMITS.file.changes_page_max,
})
const changesPage = shape(Type.Object({ changes: changesOfPage, ...restOfChanges }))
/** The agent leaves a revision that it has not computed empty. */
const writeResult = shape(
  Type.Object({ ...WriteResult.properties, revision: Type.Optional(Type.String({ pattern: '^([0-9a-f]{64})?$' })) }),
)

/**
 * The calls of one machine's agent. Each throws a Failure if the agent refuses, and AgentFailure if it fails or answers invalidly.
 * Answers are trusted no further than their shape.
 */
export interface AgentLink {
  startExec(exec: AgentExec, bounds: CallBounds): Promise<Answer<ExecSession>>
  listExecs(asked: RunsAsked, bounds: CallBounds): Promise<CommandList>
  getExec(session_id: string, bounds: CallBounds): Promise<ExecSession>
  signalExec(session_id: string, signal: string, bounds: CallBounds): Promise<ExecSession>
  cancelExec(session_id: string, bounds: CallBounds): Promise<ExecSession>
  writeStdin(session_id: string, part: { offset: number; close: boolean }, bytes: Buffer, bounds: CallBounds): Promise<ExecStdin>
  openOutput(
    session_id: string,
    from: { stdout_offset: number; stderr_offset: number; follow: boolean },
    bounds: CallBounds,
  ): Promise<IncomingMessage>
  openTerminal(asked: AgentTerminal, bounds: CallBounds): Promise<Answer<TerminalSession>>
  listTerminals(asked: RunsAsked, bounds: CallBounds): Promise<TerminalList>
  getTerminal(session_id: string, bounds: CallBounds): Promise<TerminalSession>
  closeTerminal(session_id: string, bounds: CallBounds): Promise<TerminalSession>
  resizeTerminal(session_id: string, size: TerminalSize, bounds: CallBounds): Promise<TerminalSession>
  typeIntoTerminal(session_id: string, data: string, bounds: CallBounds): Promise<TerminalSession>
  attachTerminal(session_id: string, offset: number, bounds: CallBounds): Promise<Socket>
  openFile(path: string, part: { offset?: number; length?: number }, bounds: CallBounds): Promise<IncomingMessage>
  writeFile(
    path: string,
    options: WriteOptions,
    body: Readable,
    sent: { content_length: number | undefined; key: string | null },
    bounds: CallBounds,
  ): Promise<WriteResult>
  removeFile(path: string, recursive: boolean, bounds: CallBounds): Promise<void>
  statFile(path: string, revision: boolean, bounds: CallBounds): Promise<FileInfo>
  listFiles(path: string, asked: ListAsked, bounds: CallBounds): Promise<FileList>
  makeDirectory(request: { path: string; parents?: boolean; mode?: string }, bounds: CallBounds): Promise<FileInfo>
  moveFile(request: { from: string; to: string; overwrite?: boolean }, bounds: CallBounds): Promise<FileInfo>
  /** A directory as tar. An agent that does not know `sparse` sends holes as zeros. */
  openTar(path: string, options: { sparse: boolean }, bounds: CallBounds): Promise<IncomingMessage>
  writeTar(path: string, options: TarOptions, body: Readable, content_length: number | undefined, bounds: CallBounds): Promise<TarResult>
  openWatch(asked: WatchAsked, bounds: CallBounds): Promise<IncomingMessage>
  searchFiles(request: SearchAsked, bounds: CallBounds): Promise<SearchResult>
  /** Like searchFiles, but null if it takes longer and a disk reader would find the same. */
  beginSearch(request: SearchAsked, on_disk_after_ms: number, bounds: CallBounds): Promise<SearchResult | null>
  patchFile(request: FilePatch, key: string | null, bounds: CallBounds): Promise<PatchResult>
  listChanges(filter: ChangesFilter, bounds: CallBounds): Promise<ChangesFound>
  /** The facts of paths, in their order; null: nothing there. Only disk readers know this call. */
  readFacts(paths: string[], bounds: CallBounds): Promise<(Facts | null)[]>
  listListeners(port: number, bounds: CallBounds): Promise<string[]>
  listProcesses(limit: number, bounds: CallBounds): Promise<ProcessList>
  signalProcess(pid: string, signal: string, bounds: CallBounds): Promise<void>
  cloneRepository(asked: AgentClone, bounds: CallBounds): Promise<GitHead>
  gitStatus(asked: AgentGit, bounds: CallBounds): Promise<GitStatus>
  commitChanges(asked: AgentCommit, bounds: CallBounds): Promise<GitCommitted>
  openBrowser(what: 'screenshot' | 'content', visit: AgentVisit, bounds: CallBounds): Promise<IncomingMessage>
}

/** Calls that a disk without a guest can answer. */
export type FileReads = Pick<AgentLink, 'openFile' | 'statFile' | 'listFiles' | 'searchFiles'>
export type LiveDiskReads = Pick<AgentLink, 'searchFiles' | 'readFacts'>

export interface AgentLinks {
  /** The link to a machine in one epoch. `gone` ends its connections: none may reach the next machine at the address. */
  of(workspace_id: string, machine: LiveMachine, gone: AbortSignal): AgentLink
  /** Opens a connection in advance for the first call. Never fails: that call reports the problem. */
  greet(workspace_id: string, machine: LiveMachine, gone: AbortSignal): void
  close(): void
}

export interface OpenLink {
  link: AgentLink
  close(): void
}

export function openLink(machine: AgentEndpoint, deadlines: AgentDeadlines = AGENT_DEADLINES): OpenLink {
  const connections = openConnections(machine, deadlines)
  return { link: linkOf(createLink(connections, deadlines), machine.agent_protocol), close: connections.end }
}

export function createAgentLinks(deadlines: AgentDeadlines = AGENT_DEADLINES): AgentLinks {
  const open = new Map<string, { place: string; machine: string; link: AgentLink; connections: AgentConnections }>()
  const end = (epoch: string) => {
    open.get(epoch)?.connections.end()
    open.delete(epoch)
  }
  const to = (workspace_id: string, machine: LiveMachine, gone: AbortSignal) => {
    const epoch = `${workspace_id} ${machine.epoch}`
    const place = `${machine.fence} ${machine.address}`
    const name = `${place} ${machine.stood_still}`
    const known = open.get(epoch)
    if (known?.machine === name) return known
    // No call used the machine while it was paused. Either side may have dropped its connections, which only the next call would notice.
    if (known?.place === place) known.connections.close()
    else known?.connections.end()
    const connections = openConnections(machine, deadlines)
    const link = linkOf(createLink(connections, deadlines), machine.agent_protocol)
    const made = { place, machine: name, link, connections }
    open.set(epoch, made)
    if (gone.aborted) end(epoch)
    else if (known === undefined) gone.addEventListener('abort', () => end(epoch), { once: true })
    return made
  }
  return {
    of: (workspace_id, machine, gone) => to(workspace_id, machine, gone).link,
    greet(workspace_id, machine, gone) {
      to(workspace_id, machine, gone)
        .connections.send({ method: 'GET', path: '/incarnation', safe: true, signal: gone })
        .then((response) => readBytes(response, CALL_BYTES, { signal: gone, room: UNLIMITED_BUDGET }))
        .catch(() => undefined)
    },
    close: () => [...open.keys()].forEach(end),
  }
}

type Asked = Omit<AgentRequest, 'signal'>

function createLink(connections: AgentConnections, deadlines: AgentDeadlines): AgentLink {
  const started = createStartedStreams()
  const open = async (asked: Asked, bounds: CallBounds) => {
    const response = await connections.send({ ...asked, signal: bounds.signal })
    const status = response.statusCode ?? 0
    if (isSuccess(status)) return response
    throw await refusalOf(response, status, bounds)
  }
  const stream = (asked: Asked, bounds: CallBounds) => open({ ...asked, streams: true }, bounds)
  const ask = async <T>(asked: Asked, wanted: Shape<T>, bounds: CallBounds, size = RECORD): Promise<Answer<T>> => {
    const response = await open(asked, bounds)
    return { status: response.statusCode ?? 0, body: wanted.parse(await readJson(response, size, bounds)) }
  }
  const get = async <T>(path: string, wanted: Shape<T>, bounds: CallBounds, size?: AnswerSize) =>
    (await ask({ method: 'GET', path, safe: true }, wanted, bounds, size)).body
  const post = async <T>(path: string, body: object | undefined, wanted: Shape<T>, bounds: CallBounds) =>
    (await ask({ method: 'POST', path, safe: false, body: json(body ?? {}) }, wanted, bounds)).body
  /** For an answer without a result. */
  const done = async (asked: Asked, bounds: CallBounds) => void (await readBytes(await open(asked, bounds), CALL_BYTES, bounds))
  /** For a call whose time limit the agent enforces; the margin is for its answer. */
  const timed = (path: string, body: { timeout_ms: number }): Asked => {
    const answer_ms = Math.min(body.timeout_ms + ANSWER_MARGIN_MS, deadlines.longest_ms)
    return { method: 'POST', path, safe: false, body: json(body), answer_ms }
  }
  const search = async (wanted: SearchAsked & { on_disk_after_ms?: number }, bounds: CallBounds) => {
    const asked = { method: 'POST', path: '/files/search', safe: true, body: json(wanted) } as const
    const { on_disk = false, next_cursor = null, ...found } = (await ask(asked, searchResult, bounds, LIST)).body
    return on_disk ? null : { ...found, next_cursor }
  }
  const work = async <T>(path: string, body: { timeout_ms: number }, wanted: Shape<T>, bounds: CallBounds, size?: AnswerSize) =>
    (await ask(timed(path, body), wanted, bounds, size)).body
  return {
    // Safe: the agent starts a session id once. A caller usually follows the command it starts, so its output comes with the answer, and
    // openOutput finds it.
    async startExec(exec, bounds) {
      const path = started.open() ? '/exec?follow=true' : '/exec'
      const due_ms = performance.now() + deadlines.answer_ms
      const response = await stream({ method: 'POST', path, safe: true, body: json(exec) }, bounds)
      const status = response.statusCode ?? 0
      const within_ms = due_ms - performance.now()
      if (response.headers['content-type'] !== FRAMES_TYPE) {
        const said = await within(response, within_ms, () => readJson(response, RECORD, bounds))
        return { status, body: session.parse(said) }
      }
      const body = await within(response, within_ms, () => readStarted(response, (record) => session.parse(parseAnswer(record))))
      started.keep(exec.session_id, response)
      return { status, body }
    },
    listExecs: (asked, bounds) => get(`/exec?${query({ ...asked })}`, commandList, bounds, LIST),
    getExec: (id, bounds) => get(`/exec/${encodeURIComponent(id)}`, session, bounds),
    signalExec: (id, signal, bounds) => post(`/exec/${encodeURIComponent(id)}/signal`, { signal }, session, bounds),
    cancelExec: (id, bounds) => post(`/exec/${encodeURIComponent(id)}/cancel`, undefined, session, bounds),
    // Safe: the agent does not write bytes below its offset again.
    writeStdin: async (id, part, bytes, bounds) =>
      (
        await ask(
          { method: 'POST', path: `/exec/${encodeURIComponent(id)}/stdin?${query({ ...part })}`, safe: true, body: bytes },
          stdin,
          bounds,
        )
      ).body,
    async openOutput(id, from, bounds) {
      const begun = from.follow && from.stdout_offset === 0 && from.stderr_offset === 0 ? started.take(id) : undefined
      const path = `/exec/${encodeURIComponent(id)}/output?${query({ ...from })}`
      return begun ?? stream({ method: 'GET', path, safe: true }, bounds)
    },
    openTerminal: (asked, bounds) => ask({ method: 'POST', path: '/pty', safe: true, body: json(asked) }, terminal, bounds),
    listTerminals: (asked, bounds) => get(`/pty?${query({ ...asked })}`, terminalList, bounds, LIST),
    getTerminal: (id, bounds) => get(`/pty/${encodeURIComponent(id)}`, terminal, bounds),
    closeTerminal: async (id, bounds) =>
      (await ask({ method: 'DELETE', path: `/pty/${encodeURIComponent(id)}`, safe: true }, terminal, bounds)).body,
    resizeTerminal: (id, size, bounds) => post(`/pty/${encodeURIComponent(id)}/resize`, size, terminal, bounds),
    typeIntoTerminal: (id, data, bounds) => post(`/pty/${encodeURIComponent(id)}/input`, { data }, terminal, bounds),
    async attachTerminal(id, offset, bounds) {
      const path = `/pty/${encodeURIComponent(id)}/attach?${query({ offset })}`
      const { response, socket } = await connections.switch({
        method: 'POST',
        path,
        safe: true,
        signal: bounds.signal,
        upgrade: 'berth-frames',
      })
      if (socket !== null) return socket
      throw await refusalOf(response, response.statusCode ?? 0, bounds)
    },
    openFile: (path, part, bounds) =>
      stream({ method: 'GET', path: `/files?${query({ path, ...part, revision: true })}`, safe: true }, bounds),
    async writeFile(path, options, body, { content_length, key }, bounds) {
      const asked: Asked = { method: 'PUT', path: `/files?${query({ path, ...options })}`, safe: false, body }
      if (content_length !== undefined) asked.content_length = content_length
      if (key !== null) asked.key = key
      const { revision, ...written } = (await ask(asked, writeResult, bounds)).body
      return revision ? { ...written, revision } : written
    },
    removeFile: (path, recursive, bounds) => done({ method: 'DELETE', path: `/files?${query({ path, recursive })}`, safe: false }, bounds),
    statFile: (path, revision, bounds) => get(`/files/stat?${query({ path, revision })}`, fileInfo, bounds),
    async listFiles(path, asked, bounds) {
      const list = await get(`/files/list?${query({ path, ...asked })}`, fileList, bounds, LIST)
      return { ...list, next_cursor: list.next_cursor ?? null }
    },
    makeDirectory: (wanted, bounds) => post('/files/mkdir', wanted, fileInfo, bounds),
    moveFile: (wanted, bounds) => post('/files/move', wanted, fileInfo, bounds),
    openWatch: (asked, bounds) => stream({ method: 'GET', path: `/files/watch?${query({ ...asked })}`, safe: true }, bounds),
    openTar: (path, options, bounds) => stream({ method: 'GET', path: `/files/tar?${query({ path, ...options })}`, safe: true }, bounds),
    async writeTar(path, options, body, content_length, bounds) {
      const asked: Asked = { method: 'PUT', path: `/files/tar?${query({ path, ...options })}`, safe: false, body }
      if (content_length !== undefined) asked.content_length = content_length
      return (await ask(asked, tarResult, bounds)).body
    },
    async searchFiles(wanted, bounds) {
      const found = await search(wanted, bounds)
      if (found === null) throw new AgentFailure('nonsense', 'The agent left a search that was its own')
      return found
    },
    beginSearch: (wanted, on_disk_after_ms, bounds) => search({ ...wanted, on_disk_after_ms }, bounds),
    async patchFile(wanted, key, bounds) {
      const asked = { method: 'POST', path: '/files/patch', safe: false, body: json(wanted) } as const
      // Safe with a key: the agent applies it once.
      try {
        return (await ask(key === null ? asked : { ...asked, key, safe: true }, patchResult, bounds)).body
      } catch (error) {
        throw patchRefusal(error)
      }
    },
    async listChanges(filter, bounds) {
      const { changes: data, ...page } = await get(`/changes?${query({ ...filter })}`, changesPage, bounds, LIST)
      if (filter.on_disk_from === undefined && data.some(({ on_disk }) => on_disk))
        throw new AgentFailure('nonsense', 'The agent left facts that were its own')
      return { data, ...page }
    },
    async readFacts(paths, bounds) {
      const asked = { method: 'POST', path: '/files/facts', safe: true, body: json({ paths }) } as const
      return (await ask(asked, facts, bounds, LIST)).body.facts
    },
    cloneRepository: (asked, bounds) => work('/git/clone', asked, gitHead, bounds),
    async gitStatus(asked, bounds) {
      const status = await work('/git/status', asked, gitStatus, bounds, LIST)
      return { ...status, files: status.files.map((each) => gitFile.parse(each)) }
    },
    commitChanges: (asked, bounds) => work('/git/commit', asked, gitCommitted, bounds),
    openBrowser: (what, visit, bounds) => stream(timed(`/browser/${what}`, visit), bounds),
    listListeners: async (port, bounds) => (await get(`/listeners?${query({ port })}`, listeners, bounds, REFUSAL)).addresses,
    async listProcesses(limit, bounds) {
      const { processes, truncated } = await get(`/processes?${query({ limit })}`, processList, bounds, LIST)
      return { processes: processes.map((each) => process.parse(each)), truncated }
    },
    signalProcess: (pid, signal, bounds) =>
      done({ method: 'POST', path: `/processes/${pid}/signal`, safe: false, body: json({ signal }) }, bounds),
  }
}

/** 401 and 503 concern the link itself (unknown key, agent not ready): nothing was executed. */
async function refusalOf(response: IncomingMessage, status: number, bounds: CallBounds): Promise<Error> {
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

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value))
}

function query(values: Record<string, string | number | boolean | undefined>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join('&')
}
