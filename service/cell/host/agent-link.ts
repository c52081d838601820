import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Fact, MkdirRequest, MoveRequest, SearchRequest } from '../../../contract/internal/agent-files.ts'
import type { ExecRequest, PtyRequest } from '../../../contract/internal/agent-runs.ts'
import type { BrowserRequest, GitCloneRequest, GitCommitRequest, GitRequest } from '../../../contract/internal/agent-tools.ts'
import type { FileInfo, FileList, FilePatch, PatchResult, WriteResult } from '../../../contract/schemas/cell/file.ts'
import type { GitCommitted, GitHead, GitStatus } from '../../../contract/schemas/cell/git.ts'
import type { CommandList, TerminalList } from '../../../contract/schemas/cell/lists.ts'
import type { ProcessList } from '../../../contract/schemas/cell/process.ts'
import type { SearchResult } from '../../../contract/schemas/cell/search.ts'
import type { ExecSession, ExecStdin } from '../../../contract/schemas/cell/session.ts'
import type { TarResult } from '../../../contract/schemas/cell/tar.ts'
import type { TerminalSession, TerminalSize } from '../../../contract/schemas/cell/terminal.ts'
import type { WatchAsked } from '../../../contract/schemas/cell/watch.ts'
import type { CallBounds } from './agent-answer.ts'
import type { ChangesFilter, ChangesFound, ListAsked, RunsAsked, TarOptions, WriteOptions } from './agent-asked.ts'

export interface Answer<T> {
  status: number
  body: T
}

/**
 * The calls of one machine's agent. Each throws a Failure if the agent refuses, and AgentFailure if it fails or answers invalidly.
 * Answers are trusted no further than their shape.
 */
export interface AgentLink {
  startExec(exec: ExecRequest, bounds: CallBounds): Promise<Answer<ExecSession>>
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
  openTerminal(asked: PtyRequest, bounds: CallBounds): Promise<Answer<TerminalSession>>
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
  makeDirectory(request: MkdirRequest, bounds: CallBounds): Promise<FileInfo>
  moveFile(request: MoveRequest, bounds: CallBounds): Promise<FileInfo>
  /** A directory as tar. An agent that does not know `sparse` sends holes as zeros. */
  openTar(path: string, options: { sparse: boolean }, bounds: CallBounds): Promise<IncomingMessage>
  writeTar(path: string, options: TarOptions, body: Readable, content_length: number | undefined, bounds: CallBounds): Promise<TarResult>
  openWatch(asked: WatchAsked, bounds: CallBounds): Promise<IncomingMessage>
  searchFiles(request: SearchRequest, bounds: CallBounds): Promise<SearchResult>
  /** Like searchFiles, but null if it takes longer and a disk reader would find the same. */
  beginSearch(request: SearchRequest, on_disk_after_ms: number, bounds: CallBounds): Promise<SearchResult | null>
  patchFile(request: FilePatch, key: string | null, bounds: CallBounds): Promise<PatchResult>
  listChanges(filter: ChangesFilter, bounds: CallBounds): Promise<ChangesFound>
  /** The facts of paths, in their order; null: the path does not exist. Only disk readers support this call. */
  readFacts(paths: string[], bounds: CallBounds): Promise<(Fact | null)[]>
  listListeners(port: number, bounds: CallBounds): Promise<string[]>
  listProcesses(limit: number, bounds: CallBounds): Promise<ProcessList>
  signalProcess(pid: string, signal: string, bounds: CallBounds): Promise<void>
  cloneRepository(asked: GitCloneRequest, bounds: CallBounds): Promise<GitHead>
  gitStatus(asked: GitRequest, bounds: CallBounds): Promise<GitStatus>
  commitChanges(asked: GitCommitRequest, bounds: CallBounds): Promise<GitCommitted>
  openBrowser(what: 'screenshot' | 'content', visit: BrowserRequest, bounds: CallBounds): Promise<IncomingMessage>
}

/** Calls that a disk without a guest can answer. */
export type FileReads = Pick<AgentLink, 'openFile' | 'statFile' | 'listFiles' | 'searchFiles'>
export type LiveDiskReads = Pick<AgentLink, 'searchFiles' | 'readFacts'>
