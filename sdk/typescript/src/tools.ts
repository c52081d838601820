import type { App } from './app.ts'
import type { Gateway } from './gateway.ts'
import { type List, listOf } from './list.ts'
import type {
  Change,
  Changes,
  GitCommitted,
  GitHead,
  GitStatus,
  IdleRecord,
  KeepaliveAnswer,
  ProcessList,
  TreeRestored,
  TreeRevision,
  WakeHint,
} from './schemas.ts'
import { guestPath } from './guest-path.ts'
import { type CallOptions, deadlineFor } from './transport.ts'

export interface Clone {
  url: string
  path: string
  branch?: string
  depth?: number
  /** Name of a secret with the value of the Authorization header. Its `allowed_tools` must include `git`. */
  authorization_secret?: string
  timeout_ms?: number
}
export interface Commit {
  path: string
  message: string
  paths?: string[]
  author?: { name: string; email: string }
}
export interface Visit {
  url: string
  viewport?: { width: number; height: number }
  wait_until?: 'load' | 'domcontentloaded' | 'networkidle'
  wait_ms?: number
  timeout_ms?: number
}

/** Wait for calls that may take minutes. */
const LONG_MS = 11 * 60_000

export function gitOf(gateway: Gateway) {
  return {
    /** Clones a repository. Does not retry after a lost answer: the path may then exist. */
    clone: (json: Clone, options?: CallOptions): Promise<GitHead> =>
      gateway.call(
        { method: 'POST', path: '/git/clone', json: { ...json, path: guestPath(json.path) }, attempt_ms: LONG_MS },
        { waitMs: LONG_MS, ...options },
      ),
    status: (path: string, options?: CallOptions): Promise<GitStatus> =>
      gateway.call({ method: 'GET', path: '/git/status', query: { path: guestPath(path) } }, options),
    commit: (json: Commit, options?: CallOptions): Promise<GitCommitted> =>
      gateway.call({ method: 'POST', path: '/git/commit', json: { ...json, path: guestPath(json.path) } }, options),
  }
}

export function browserOf(gateway: Gateway) {
  const visit = (path: string, json: object, options?: CallOptions) => ({
    method: 'POST',
    path,
    json,
    repeats: 'read' as const,
    attempt_ms: LONG_MS,
    ...options,
  })
  return {
    /** Returns a PNG. */
    screenshot: (asked: Visit & { full_page?: boolean }, options?: CallOptions): Promise<Uint8Array<ArrayBuffer>> =>
      gateway.send(
        visit('/browser/screenshot', asked),
        deadlineFor(options),
        async (response) => new Uint8Array(await response.arrayBuffer()),
      ),
    /** Returns the page as rendered. */
    content: (asked: Visit & { format?: 'html' | 'text' }, options?: CallOptions): Promise<string> =>
      gateway.send(visit('/browser/content', asked), deadlineFor(options), (response) => response.text()),
  }
}

export function processesOf(gateway: Gateway) {
  return {
    list: (options?: CallOptions & { limit?: number }): Promise<ProcessList> =>
      gateway.call({ method: 'GET', path: '/processes', query: { limit: options?.limit } }, options),
    signal: (pid: number, signal: string, options?: CallOptions): Promise<void> =>
      gateway.call({ method: 'POST', path: `/processes/${pid}/signal`, json: { signal } }, options),
  }
}

export function idleOf(gateway: Gateway) {
  return {
    get: (options?: CallOptions): Promise<IdleRecord> => gateway.call({ method: 'GET', path: '/idle' }, options),
    keepalive: (seconds: number, options?: CallOptions): Promise<KeepaliveAnswer> =>
      gateway.call({ method: 'POST', path: '/keepalive', json: { seconds }, repeats: 'keyed' }, options),
    wakeHint: (options?: CallOptions): Promise<WakeHint> =>
      gateway.call({ method: 'POST', path: '/wake-hint', json: {}, repeats: 'keyed' }, options),
  }
}

export interface ChangesQuery {
  path_prefix?: string
  hash?: boolean
}

export function changesOf(gateway: Gateway) {
  const summarised = (path: string, query: object, options?: CallOptions) =>
    gateway.call<Changes>({ method: 'GET', path, query: { ...query, summary: true } }, options).then(({ summary }) => summary)
  return {
    /** Lists changes against the template. */
    list: (query: ChangesQuery = {}, options?: CallOptions): List<Change> => listOf(callOf(gateway), '/changes', query, options),
    summary: (query: ChangesQuery = {}, options?: CallOptions) => summarised('/changes', query, options),
  }
}

/** The history of a file-first workspace. */
export function treeOf(gateway: Gateway) {
  return {
    revisions: (options?: CallOptions): List<TreeRevision> => listOf(callOf(gateway), '/tree/revisions', {}, options),
    diff: (query: { from: number; to?: number; path_prefix?: string }, options?: CallOptions): List<Change> =>
      listOf(callOf(gateway), '/tree/diff', query, options),
    restore: (tree_revision: number, options?: CallOptions & { if_match?: number }): Promise<TreeRestored> =>
      gateway.call(
        {
          method: 'POST',
          path: '/tree/restore',
          json: { tree_revision },
          headers: options?.if_match === undefined ? {} : { 'if-match': String(options.if_match) },
        },
        options,
      ),
  }
}

export function callOf(gateway: Gateway): Pick<App, 'call'> {
  return { call: (request, options) => gateway.call(request, options) }
}
