import { type Bytes, joined, utf8 } from './bytes.ts'
import { BerthError, ConnectionError } from './errors.ts'
import type { Gateway } from './gateway.ts'
import { guestPath } from './guest-path.ts'
import { type Deadline, mayRepeat, pause, waitBefore } from './retry.ts'
import type { FileInfo, FileList, FilePatch, FileSearch, PatchResult, SearchResult, TarResult, WriteResult } from './schemas.ts'
import { type Body, type CallOptions, deadlineFor, type Request } from './transport.ts'
import { watched, type WatchEvent, type WatchOptions } from './watch.ts'

export type Content = string | Uint8Array | Blob | ReadableStream<Uint8Array>

/** `if_match`: in a file-first workspace, refuses the change unless the tree has this revision. */
export interface ChangeOptions extends CallOptions {
  if_match?: number
}
export interface ReadOptions extends CallOptions {
  /** In a file-first workspace: an earlier revision that is retained. */
  tree_revision?: number
}
export interface WriteOptions extends ChangeOptions {
  mode?: string
  /** Creates missing parent directories. Default: true. */
  create_parents?: boolean
  append?: boolean
}

/** Size limit of one request. Larger content goes in pieces into a temporary file, which then replaces the target. */
const PIECE_BYTES = 7 << 20
const TRANSFER_MS = 60 * 60_000

/**
 * The files of a workspace. Relative paths and `~` resolve against `/home/user`. Reads of a suspended workspace are served from its disk,
 * without waking it.
 */
export interface Files {
  /** Reads a file, or `length` bytes from `offset` on. Throws `not_found`, `path_not_found` where there is none. */
  read(path: string, options?: ReadOptions & { offset?: number; length?: number }): Promise<Bytes>
  /** Reads a file as UTF-8 text. */
  readText(path: string, options?: ReadOptions): Promise<string>
  /** Reads in pieces, and resumes after a lost connection. Throws when the file changes during the read. */
  stream(path: string, options?: ReadOptions & { offset?: number }): AsyncGenerator<Bytes, void>
  /** Writes a file of any size atomically. It is durable on return. */
  write(path: string, content: Content, options?: WriteOptions): Promise<WriteResult>
  /** Removes a file or an empty directory; with `recursive` a directory and its content, else `conflict`, `not_empty`. */
  remove(path: string, options?: ChangeOptions & { recursive?: boolean }): Promise<void>
  /** Returns type, size in bytes, mode and time. With `revision` also the SHA-256 of a file, for `patch` as `expected_revision`. */
  stat(path: string, options?: ReadOptions & { revision?: boolean }): Promise<FileInfo>
  /** Returns whether the path exists. */
  exists(path: string, options?: ReadOptions): Promise<boolean>
  /** Lists a directory by name; `truncated`: there are more entries than `limit`. */
  list(path: string, options?: ReadOptions & { limit?: number }): Promise<FileList>
  /** Creates a directory and its parents. `parents: false`: only the directory, with `conflict` where it exists. `mode` is octal. */
  mkdir(path: string, options?: ChangeOptions & { parents?: boolean; mode?: string }): Promise<FileInfo>
  /** Moves or renames within the workspace. `overwrite` replaces the target, else `conflict`, `already_exists`. */
  move(from: string, to: string, options?: ChangeOptions & { overwrite?: boolean }): Promise<FileInfo>
  /** Searches files below a path for matching lines. `pattern` is literal text, or an RE2 expression with `regex`. */
  search(request: FileSearch, options?: CallOptions): Promise<SearchResult>
  /**
   * Changes a text file atomically, by `edits` or the whole `content`. Throws `conflict`, `revision_mismatch` unless the file has
   * `expected_revision` (a SHA-256, or `absent`).
   */
  patch(path: string, change: Omit<FilePatch, 'path'>, options?: ChangeOptions): Promise<PatchResult>
  /** Yields changes in a directory as they happen, across lost connections; ends when the directory is gone. */
  watch(path: string, options?: WatchOptions): AsyncGenerator<WatchEvent, void>
  /**
   * Streams a directory as a tar. Throws where it breaks off, without a retry. Sparse files use the GNU format; `sparse: false` is for
   * programs that do not support it.
   */
  readTar(path: string, options?: ReadOptions & { sparse?: boolean }): Promise<ReadableStream<Uint8Array>>
  /**
   * Unpacks a tar below a directory atomically; files not in the tar stay. It is durable on return. Retries only where `tar` is a
   * function, which must return the same tar each time.
   */
  writeTar(
    path: string,
    tar: Uint8Array | Blob | ReadableStream<Uint8Array> | (() => ReadableStream<Uint8Array>),
    options?: ChangeOptions & { create_parents?: boolean; links_out?: boolean },
  ): Promise<TarResult>
}

export function filesOf(gateway: Gateway): Files {
  return {
    read: (path, options) => read(gateway, path, options),
    readText: async (path, options) => new TextDecoder().decode(await read(gateway, path, options)),
    stream: (path, options = {}) => streamed(gateway, guestPath(path), options),
    write: (path, content, options) => write(gateway, path, content, options),
    remove: (path, { recursive, ...options } = {}) =>
      change(gateway, { method: 'DELETE', path: '/files', query: { path: guestPath(path), recursive } }, options),
    stat: (path, options) => stat(gateway, path, options),
    exists: (path, options) => exists(gateway, path, options),
    list: (path, { signal, waitMs, ...query } = {}) =>
      gateway.call({ method: 'GET', path: '/files/list', query: { path: guestPath(path), ...query } }, { signal, waitMs }),
    mkdir: (path, { parents = true, mode, ...options } = {}) =>
      change(gateway, { method: 'POST', path: '/files/mkdir', json: { path: guestPath(path), parents, mode } }, options),
    move: (from, to, options) => move(gateway, from, to, options),
    search: (json, options) =>
      gateway.call({ method: 'POST', path: '/files/search', json: { ...json, path: guestPath(json.path) }, repeats: 'read' }, options),
    patch: (path, json, options = {}) =>
      change(gateway, { method: 'POST', path: '/files/patch', json: { path: guestPath(path), ...json }, key: true }, options),
    watch: (path, options = {}) => watched(gateway, guestPath(path), options),
    readTar: (path, options) => readTar(gateway, path, options),
    writeTar: (path, tar, options) => writeTar(gateway, path, tar, options),
  }
}

function change<T>(gateway: Gateway, request: Request, { if_match, signal, waitMs }: ChangeOptions): Promise<T> {
  return gateway.call(
    { ...request, ...(if_match === undefined ? {} : { headers: { ...request.headers, 'if-match': String(if_match) } }) },
    { signal, waitMs },
  )
}

async function read(
  gateway: Gateway,
  path: string,
  { signal, waitMs, ...query }: ReadOptions & { offset?: number; length?: number } = {},
): Promise<Bytes> {
  return gateway.send(
    { method: 'GET', path: '/files', query: { path: guestPath(path), ...query } },
    deadlineFor({ signal, waitMs }),
    async (response) => new Uint8Array(await whole(response)),
  )
}

async function write(
  gateway: Gateway,
  given: string,
  content: Content,
  { mode, create_parents = true, append, ...options }: WriteOptions = {},
): Promise<WriteResult> {
  const path = guestPath(given)
  const query = { mode, create_parents, append }
  const timed = { waitMs: TRANSFER_MS, ...options }
  const pieces = piecesOf(content)
  const first: Bytes = (await pieces.next()).value ?? new Uint8Array()
  const second = await pieces.next()
  if (second.done === true) return put(gateway, { path, ...query }, first, options)
  // An append in pieces is visible in parts: it cannot be atomic.
  const upload_path = append === true ? path : `${path}.berth-${crypto.randomUUID().slice(0, 8)}`
  let result = await put(gateway, { path: upload_path, ...query }, first, timed)
  for (let piece: Bytes | undefined = second.value; piece !== undefined; piece = (await pieces.next()).value) {
    const { bytes_written } = result
    result = await put(gateway, { path: upload_path, append: true }, piece, timed)
    result = { ...result, bytes_written: bytes_written + result.bytes_written }
  }
  if (append === true) return result
  await move(gateway, upload_path, path, { ...timed, overwrite: true })
  return { ...result, path, sha256: result.revision ?? result.sha256 }
}

function put(gateway: Gateway, query: object, body: Bytes | Blob, options: ChangeOptions): Promise<WriteResult> {
  const headers = { 'content-type': 'application/octet-stream' }
  return change(gateway, { method: 'PUT', path: '/files', query, body, headers, key: true }, options)
}

function stat(gateway: Gateway, path: string, { signal, waitMs, ...query }: ReadOptions & { revision?: boolean } = {}): Promise<FileInfo> {
  return gateway.call({ method: 'GET', path: '/files/stat', query: { path: guestPath(path), ...query } }, { signal, waitMs })
}

async function exists(gateway: Gateway, path: string, options?: ReadOptions): Promise<boolean> {
  try {
    await stat(gateway, path, options)
    return true
  } catch (error) {
    if (error instanceof BerthError && error.code === 'not_found' && error.reason === 'path_not_found') return false
    throw error
  }
}

function move(
  gateway: Gateway,
  from: string,
  to: string,
  { overwrite, ...options }: ChangeOptions & { overwrite?: boolean } = {},
): Promise<FileInfo> {
  const json = { from: guestPath(from), to: guestPath(to), overwrite }
  return change(gateway, { method: 'POST', path: '/files/move', json }, options)
}

function readTar(
  gateway: Gateway,
  path: string,
  { signal, waitMs, tree_revision, sparse }: ReadOptions & { sparse?: boolean } = {},
): Promise<ReadableStream<Uint8Array>> {
  const deadline = deadlineFor({ signal, waitMs }, TRANSFER_MS)
  const request = { method: 'GET', path: '/files/tar', query: { path: guestPath(path), tree_revision, sparse } }
  return gateway.send(request, deadline, ({ body }) => body ?? new Blob([]).stream())
}

function writeTar(
  gateway: Gateway,
  path: string,
  tar: Parameters<Files['writeTar']>[1],
  { create_parents = true, links_out, ...options }: NonNullable<Parameters<Files['writeTar']>[2]> = {},
): Promise<TarResult> {
  const headers = { 'content-type': 'application/x-tar' }
  const request = {
    method: 'PUT',
    path: '/files/tar',
    query: { path: guestPath(path), create_parents, links_out },
    headers,
    body: tar as Body,
  }
  const repeats = typeof tar === 'function' && options.if_match === undefined ? { repeats: 'keyed' as const } : {}
  return change(gateway, { ...request, ...repeats, attempt_ms: TRANSFER_MS }, { waitMs: TRANSFER_MS, ...options })
}

async function* streamed(
  gateway: Gateway,
  path: string,
  { signal, waitMs, tree_revision, offset = 0 }: ReadOptions & { offset?: number },
): AsyncGenerator<Bytes, void> {
  const deadline = deadlineFor({ signal, waitMs }, TRANSFER_MS)
  let at = offset
  let seen: string | undefined
  for (let attempt = 0; ; attempt += 1) {
    try {
      for await (const bytes of await begun(gateway, { path, tree_revision, offset: at }, deadline, (version) => {
        if (seen !== undefined && seen !== version) throw new TypeError(`${path} changed while it was read`)
        seen = version
      })) {
        at += bytes.length
        attempt = 0
        yield bytes
      }
      return
    } catch (cause) {
      if (deadline.signal.aborted || cause instanceof TypeError) throw cause
      if (!mayRepeat(cause, 'read')) throw cause
      await pause(waitBefore(attempt, null), deadline)
    }
  }
}

/** Yields the bytes from an offset on. Throws a ConnectionError where fewer arrive than announced. */
async function begun(
  gateway: Gateway,
  query: object,
  deadline: Deadline,
  check: (version: string) => void,
): Promise<AsyncGenerator<Bytes>> {
  const request = { method: 'GET', path: '/files', query }
  const { headers, body } = await gateway.send(request, deadline, (response) => response)
  check(`${headers.get('x-file-size') ?? ''} ${headers.get('x-file-revision') ?? ''}`)
  return reading(body, Number(headers.get('content-length') ?? Number.NaN))
}

async function* reading(body: Response['body'], expected: number): AsyncGenerator<Bytes> {
  const reader = (body as ReadableStream<Bytes> | null)?.getReader()
  let seen = 0
  try {
    for (;;) {
      const next = await reader?.read().catch((cause: unknown) => {
        throw new ConnectionError('The file broke off', { cause })
      })
      if (next === undefined || next.done) break
      seen += next.value.length
      yield next.value
    }
  } finally {
    await reader?.cancel().catch(() => undefined) // the stream may have broken off already
  }
  if (seen < expected) throw new ConnectionError('The file broke off')
}

async function whole(response: Response): Promise<ArrayBuffer> {
  const expected = Number(response.headers.get('content-length') ?? 0)
  const bytes = await response.arrayBuffer().catch((cause: unknown) => {
    throw new ConnectionError('The file broke off', { cause })
  })
  if (bytes.byteLength < expected) throw new ConnectionError('The file broke off')
  return bytes
}

/** Splits content into pieces of PIECE_BYTES; only the last may be smaller. */
async function* piecesOf(content: Content): AsyncGenerator<Bytes, undefined> {
  let waiting: Uint8Array[] = []
  let bytes = 0
  for await (const part of partsOf(content)) {
    for (let at = 0; at < part.length;) {
      const taken = part.subarray(at, at + PIECE_BYTES - bytes)
      waiting.push(taken)
      bytes += taken.length
      at += taken.length
      if (bytes < PIECE_BYTES) continue
      yield joined(waiting)
      waiting = []
      bytes = 0
    }
  }
  if (bytes > 0) yield joined(waiting)
  return undefined
}

async function* partsOf(content: Content): AsyncGenerator<Uint8Array> {
  if (typeof content === 'string' || content instanceof Uint8Array) {
    yield typeof content === 'string' ? utf8(content) : content
    return
  }
  const stream: ReadableStream<Uint8Array> = content instanceof Blob ? content.stream() : content
  const reader = stream.getReader()
  for (;;) {
    const next = await reader.read()
    if (next.done) return
    yield next.value
  }
}
