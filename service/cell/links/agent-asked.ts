import type { Static } from 'typebox'
import type { Change, Changes } from '../../../contract/schemas/cell/change.ts'
import type { FileSearch } from '../../../contract/schemas/cell/search.ts'
import type { TerminalSize } from '../../../contract/schemas/cell/terminal.ts'

export interface ChangesFilter {
  path_prefix?: string
  limit: number
  cursor?: string
  hash: boolean
  summary: boolean
  /** The facts of so many new files, or more, are left to the reader of the disk. */
  on_disk_from?: number
}

/** machine/internal/wire/agent.go: ExecRequest. */
export interface AgentExec {
  session_id: string
  fingerprint: string
  argv: string[]
  cwd: string
  user: string
  env: Record<string, string>
  stdin_base64?: string
  stdin_open?: true
  timeout_ms?: number
  kill_grace_ms?: number
}

/** machine/internal/wire/agent.go: PtyRequest. */
export type AgentTerminal = Pick<AgentExec, 'session_id' | 'fingerprint' | 'argv' | 'cwd' | 'user' | 'env'> & TerminalSize

/** What a name on a disk is. */
export type Facts = Pick<Static<typeof Change>, 'type' | 'size' | 'mode'>
/** Of a change whose facts are on the disk, size and mode are not said. */
export type ChangesFound = Omit<Changes, 'data'> & { data: (Static<typeof Change> & { on_disk?: true })[] }

/** What an agent of before protocol 7 does not know is there only where it was asked for. */
export interface ListAsked {
  limit: number
  cursor?: string
  recursive?: true
}
export type SearchAsked = Required<Omit<FileSearch, 'cursor'>> & Pick<FileSearch, 'cursor'>

/** A page of commands or terminals. */
export interface RunsAsked {
  state?: 'running' | 'ended'
  limit: number
  cursor?: string
}

export interface WriteOptions {
  append?: boolean
  mode?: string
  create_parents?: boolean
}

export interface TarOptions {
  create_parents: boolean
  links_out: boolean
}

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
