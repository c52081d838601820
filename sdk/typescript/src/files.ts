import { type Bytes, joined, utf8 } from './bytes.ts'
import { BerthError, ConnectionError } from './errors.ts'
import type { Gateway } from './gateway.ts'
import { guestPath } from './guest-path.ts'
import { type Deadline, mayRepeat, pause, waitBefore } from './retry.ts'
import type { FileInfo, FileList, FilePatch, FileSearch, PatchResult, SearchResult, TarResult, WriteResult } from './schemas.ts'
import { type Body, type CallOptions, deadlineFor, type Request } from './transport.ts'
import { watched, type WatchEvent, type WatchOptions } from './watch.ts'

export type Content = string | Uint8Array | Blob | ReadableStream<Uint8Array>

/** Of a file-first workspace: a change only where its tree is at this revision. */
export interface ChangeOptions extends CallOptions {
  if_match?: number
}
export interface ReadOptions extends CallOptions {
  /** Of a file-first workspace: an earlier revision that is kept. */
  tree_revision?: number
}
export interface WriteOptions extends ChangeOptions {
  mode?: string
  /** Makes the directories above, too. Absent: true. */
  create_parents?: boolean
  append?: boolean
}

/** What one request may carry. More is sent in pieces to a file beside, which then takes the place of the old one. */
const PIECE_BYTES = 7 << 20
const TRANSFER_MS = 60 * 60_000

/**
 * The files of a workspace. Paths that do not begin with `/`, and `~`, are of `/home/user`. Reads of a suspended workspace are served from
 * its disk, and do not wake it.
 */
export interface Files {
  /** The bytes of a file, or of a part of it: `length` bytes from `offset` on. Throws `not_found`, `path_not_found` where there is none. */
  read(path: string, options?: ReadOptions & { offset?: number; length?: number }): Promise<Bytes>
  /** The same as text, in UTF-8. */
  readText(path: string, options?: ReadOptions): Promise<string>
  /** In pieces, resumed where a connection drops. Throws when the file changes meanwhile. */
  stream(path: string, options?: ReadOptions & { offset?: number }): AsyncGenerator<Bytes, void>
  /** Durable when it returns, and whole or not at all, whatever its size. */
  write(path: string, content: Content, options?: WriteOptions): Promise<WriteResult>
  /** Removes a file, or an empty directory; `recursive`: a directory with all below it, else `conflict`, `not_empty`. */
  remove(path: string, options?: ChangeOptions & { recursive?: boolean }): Promise<void>
  /** Of a path: type, size in bytes, mode, time. `revision`: the SHA-256 of a file, which `patch` takes as `expected_revision`. */
  stat(path: string, options?: ReadOptions & { revision?: boolean }): Promise<FileInfo>
  /** Whether something is at a path. */
  exists(path: string, options?: ReadOptions): Promise<boolean>
  /** What is in a directory, by name; `truncated` where there is more than `limit`. */
  list(path: string, options?: ReadOptions & { limit?: number }): Promise<FileList>
  /** Makes a directory, and those above it. `parents: false`: neither, and `conflict` where it is there. `mode` is octal. */
  mkdir(path: string, options?: ChangeOptions & { parents?: boolean; mode?: string }): Promise<FileInfo>
  /** Moves or renames within the workspace; `overwrite`: in the place of what is there, else `conflict`, `already_exists`. */
  move(from: string, to: string, options?: ChangeOptions & { overwrite?: boolean }): Promise<FileInfo>
  /** Lines that match, of the files below a path. `pattern` is a literal, or an RE2 expression with `regex`. */
  search(request: FileSearch, options?: CallOptions): Promise<SearchResult>
  /**
   * Changes a text file in one step, by `edits` or by the whole `content`. Where it is not at `expected_revision` (a SHA-256, or `absent`)
   * it stays as it is: `conflict`, `revision_mismatch`.
   */
  patch(path: string, change: Omit<FilePatch, 'path'>, options?: ChangeOptions): Promise<PatchResult>
  /** What changes in a directory, as it changes, over dropped connections; ends when the directory is gone. */
  watch(path: string, options?: WatchOptions): AsyncGenerator<WatchEvent, void>
  /**
   * A directory as a tar, as it comes. What breaks off throws: it does not begin anew. Files with holes come as GNU tar writes them;
   * `sparse: false` for programs that do not know that.
   */
  readTar(path: string, options?: ReadOptions & { sparse?: boolean }): Promise<ReadableStream<Uint8Array>>
  /**
   * Unpacks a tar below a directory: all of it, or nothing; what it does not have stays. Durable when it returns. Sent again by itself
   * only where `tar` is a function, which is asked for the same tar anew.
   */
  writeTar(
    path: string,
    tar: Uint8Array | Blob | ReadableStream<Uint8Array> | (() => ReadableStream<Uint8Array>),
    options?: ChangeOptions & { create_parents?: boolean; links_out?: boolean },
  ): Promise<TarResult>
}

export function filesOf(gateway: Gateway): Files {
  const change = <T>(request: Request, { if_match, signal, waitMs }: ChangeOptions): Promise<T> =>
    gateway.call(
      { ...request, ...(if_match === undefined ? {} : { headers: { ...request.headers, 'if-match': String(if_match) } }) },
      { signal, waitMs },
    )
  const put = (query: object, body: Bytes | Blob, options: ChangeOptions) =>
    change<WriteResult>(
      { method: 'PUT', path: '/files', query, body, headers: { 'content-type': 'application/octet-stream' }, key: true },
      options,
    )
  const files: Files = {
    async read(path, { signal, waitMs, ...query } = {}) {
      const read = async (response: Response) => new Uint8Array(await whole(response))
      return gateway.send(
        { method: 'GET', path: '/files', query: { path: guestPath(path), ...query } },
        deadlineFor({ signal, waitMs }),
        read,
      )
    },
    readText: async (path, options) => new TextDecoder().decode(await files.read(path, options)),
    stream: (path, options = {}) => streamed(gateway, guestPath(path), options),
    async write(given, content, { mode, create_parents = true, append, ...options } = {}) {
      const path = guestPath(given)
      const query = { mode, create_parents, append }
      const timed = { waitMs: TRANSFER_MS, ...options }
      const pieces = piecesOf(content)
      const first: Bytes = (await pieces.next()).value ?? new Uint8Array()
      const second = await pieces.next()
      if (second.done === true) return put({ path, ...query }, first, options)
      // What is appended piece by piece can be seen half: it is what was asked for.
      const beside = append === true ? path : `${path}.berth-${crypto.randomUUID().slice(0, 8)}`
      let result = await put({ path: beside, ...query }, first, timed)
      for (let piece: Bytes | undefined = second.value; piece !== undefined; piece = (await pieces.next()).value) {
        const { bytes_written } = result
        result = await put({ path: beside, append: true }, piece, timed)
        result = { ...result, bytes_written: bytes_written + result.bytes_written }
      }
      if (append === true) return result
      await files.move(beside, path, { ...timed, overwrite: true })
      return { ...result, path, sha256: result.revision ?? result.sha256 }
    },
    remove: (path, { recursive, ...options } = {}) =>
      change({ method: 'DELETE', path: '/files', query: { path: guestPath(path), recursive } }, options),
    stat: (path, { signal, waitMs, ...query } = {}) =>
      gateway.call({ method: 'GET', path: '/files/stat', query: { path: guestPath(path), ...query } }, { signal, waitMs }),
    async exists(path, options) {
      try {
        await files.stat(path, options)
        return true
      } catch (error) {
        if (error instanceof BerthError && error.code === 'not_found' && error.reason === 'path_not_found') return false
        throw error
      }
    },
    list: (path, { signal, waitMs, ...query } = {}) =>
      gateway.call({ method: 'GET', path: '/files/list', query: { path: guestPath(path), ...query } }, { signal, waitMs }),
    mkdir: (path, { parents = true, mode, ...options } = {}) =>
      change({ method: 'POST', path: '/files/mkdir', json: { path: guestPath(path), parents, mode } }, options),
    move: (from, to, { overwrite, ...options } = {}) =>
      change({ method: 'POST', path: '/files/move', json: { from: guestPath(from), to: guestPath(to), overwrite } }, options),
    search: (json, options) =>
      gateway.call({ method: 'POST', path: '/files/search', json: { ...json, path: guestPath(json.path) }, repeats: 'read' }, options),
    patch: (path, json, options = {}) =>
      change({ method: 'POST', path: '/files/patch', json: { path: guestPath(path), ...json }, key: true }, options),
    watch: (path, options = {}) => watched(gateway, guestPath(path), options),
    readTar: (path, { signal, waitMs, tree_revision, sparse } = {}) => {
      const deadline = deadlineFor({ signal, waitMs }, TRANSFER_MS)
      const request = { method: 'GET', path: '/files/tar', query: { path: guestPath(path), tree_revision, sparse } }
      return gateway.send(request, deadline, ({ body }) => body ?? new Blob([]).stream())
    },
    writeTar: (path, tar, { create_parents = true, links_out, ...options } = {}) => {
      const headers = { 'content-type': 'application/x-tar' }
      const request = {
        method: 'PUT',
        path: '/files/tar',
        query: { path: guestPath(path), create_parents, links_out },
        headers,
        body: tar as Body,
      }
      const repeats = typeof tar === 'function' && options.if_match === undefined ? { repeats: 'keyed' as const } : {}
      return change({ ...request, ...repeats, attempt_ms: TRANSFER_MS }, { waitMs: TRANSFER_MS, ...options })
    },
  }
  return files
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

/** The bytes from an offset on. It breaks off as a ConnectionError where they are fewer than was said. */
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
    await reader?.cancel().catch(() => undefined) // it may have broken off already
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

/** Pieces of at most PIECE_BYTES; every one but the last is as large. */
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
