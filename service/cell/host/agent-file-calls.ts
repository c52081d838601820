import type { Readable } from 'node:stream'
import { Changes, FileList, SearchResult, type SearchRequest, WriteResult } from '../../../contract/internal/agent-files.ts'
import { FileInfo, type FilePatch, type PatchResult, type WriteResult as WriteAnswer } from '../../../contract/schemas/cell/file.ts'
import type { SearchResult as SearchAnswer } from '../../../contract/schemas/cell/search.ts'
import { TarResult } from '../../../contract/schemas/cell/tar.ts'
import { type CallBounds, shape } from './agent-answer.ts'
import type { ChangesFilter, ChangesFound, TarOptions, WriteOptions } from './agent-asked.ts'
import { ask, type Asked, done, download, get, json, LIST, post, query, type AgentRoute } from './agent-calls.ts'
import { AgentFailure } from './agent-failure.ts'
import type { AgentLink } from './agent-link.ts'
import { patchRefusal, patchResult } from './agent-patch.ts'
import { facts } from './agent-shapes.ts'

const fileInfo = shape(FileInfo)
const fileList = shape(FileList)
const tarResult = shape(TarResult)
const searchResult = shape(SearchResult)
const changesPage = shape(Changes)
const writeResult = shape(WriteResult)

type FileCalls = Pick<
  AgentLink,
  | 'openFile'
  | 'writeFile'
  | 'removeFile'
  | 'statFile'
  | 'listFiles'
  | 'makeDirectory'
  | 'moveFile'
  | 'openTar'
  | 'writeTar'
  | 'openWatch'
  | 'searchFiles'
  | 'beginSearch'
  | 'patchFile'
  | 'listChanges'
  | 'readFacts'
>

export function fileCalls(route: AgentRoute): FileCalls {
  return {
    openFile: (path, part, bounds) => download(route, `/files?${query({ path, ...part, revision: true })}`, bounds),
    writeFile: (path, options, body, sent, bounds) => writeFile(route, { path, ...options }, { body, ...sent }, bounds),
    removeFile: (path, recursive, bounds) =>
      done(route, { method: 'DELETE', path: `/files?${query({ path, recursive })}`, safe: false }, bounds),
    statFile: (path, revision, bounds) => get(route, `/files/stat?${query({ path, revision })}`, fileInfo, bounds),
    async listFiles(path, asked, bounds) {
      const list = await get(route, `/files/list?${query({ path, ...asked })}`, fileList, bounds, LIST)
      return { ...list, next_cursor: list.next_cursor ?? null }
    },
    makeDirectory: (wanted, bounds) => post(route, '/files/mkdir', wanted, fileInfo, bounds),
    moveFile: (wanted, bounds) => post(route, '/files/move', wanted, fileInfo, bounds),
    openWatch: (asked, bounds) => download(route, `/files/watch?${query({ ...asked })}`, bounds),
    openTar: (path, options, bounds) => download(route, `/files/tar?${query({ path, ...options })}`, bounds),
    writeTar: (path, options, body, content_length, bounds) => writeTar(route, { path, ...options }, { body, content_length }, bounds),
    async searchFiles(wanted, bounds) {
      const found = await search(route, wanted, bounds)
      if (found === null) throw new AgentFailure('nonsense', 'The agent left a search that was its own')
      return found
    },
    beginSearch: (wanted, on_disk_after_ms, bounds) => search(route, { ...wanted, on_disk_after_ms }, bounds),
    patchFile: (wanted, key, bounds) => patchFile(route, wanted, key, bounds),
    listChanges: (filter, bounds) => listChanges(route, filter, bounds),
    async readFacts(paths, bounds) {
      const asked = { method: 'POST', path: '/files/facts', safe: true, body: json({ paths }) } as const
      return (await ask(route, asked, facts, bounds, LIST)).body.facts
    },
  }
}

async function writeFile(
  route: AgentRoute,
  to: { path: string } & WriteOptions,
  { body, content_length, key }: { body: Readable; content_length: number | undefined; key: string | null },
  bounds: CallBounds,
): Promise<WriteAnswer> {
  const asked: Asked = { method: 'PUT', path: `/files?${query({ ...to })}`, safe: false, body }
  if (content_length !== undefined) asked.content_length = content_length
  if (key !== null) asked.key = key
  const { revision, ...written } = (await ask(route, asked, writeResult, bounds)).body
  return revision ? { ...written, revision } : written
}

async function writeTar(
  route: AgentRoute,
  to: { path: string } & TarOptions,
  { body, content_length }: { body: Readable; content_length: number | undefined },
  bounds: CallBounds,
): Promise<TarResult> {
  const asked: Asked = { method: 'PUT', path: `/files/tar?${query({ ...to })}`, safe: false, body }
  if (content_length !== undefined) asked.content_length = content_length
  return (await ask(route, asked, tarResult, bounds)).body
}

/** @returns null if the agent left the search to the disk reader on the host */
async function search(route: AgentRoute, wanted: SearchRequest, bounds: CallBounds): Promise<SearchAnswer | null> {
  const asked = { method: 'POST', path: '/files/search', safe: true, body: json(wanted) } as const
  const { on_disk = false, next_cursor = null, ...found } = (await ask(route, asked, searchResult, bounds, LIST)).body
  return on_disk ? null : { ...found, next_cursor }
}

async function patchFile(route: AgentRoute, wanted: FilePatch, key: string | null, bounds: CallBounds): Promise<PatchResult> {
  const asked = { method: 'POST', path: '/files/patch', safe: false, body: json(wanted) } as const
  // With a key the call is repeatable, because the agent applies the patch once.
  try {
    return (await ask(route, key === null ? asked : { ...asked, key, safe: true }, patchResult, bounds)).body
  } catch (error) {
    throw patchRefusal(error)
  }
}

async function listChanges(route: AgentRoute, filter: ChangesFilter, bounds: CallBounds): Promise<ChangesFound> {
  const { changes: data, ...page } = await get(route, `/changes?${query({ ...filter })}`, changesPage, bounds, LIST)
  if (filter.on_disk_from === undefined && data.some(({ on_disk }) => on_disk))
    throw new AgentFailure('nonsense', 'The agent left facts that were its own')
  return { data, ...page }
}
