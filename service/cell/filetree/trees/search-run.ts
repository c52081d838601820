import { LIMITS } from '../../../../contract/limits.ts'
import type { FileSearch, SearchResult, SearchStopReason } from '../../../../contract/schemas/cell/search.ts'
import { readPart } from './contents.ts'
import type { Entry, FileEntry } from './entries.ts'
import { compileGlob, type Glob } from './globs.ts'
import type { PageReads } from './pages.ts'
import { compilePattern, type Hit, type SearchPattern } from './search-pattern.ts'
import { type Bookmark, cursorOf, nextOf, stepsOf } from './bookmark.ts'
import { listEntries } from './tree.ts'

export interface SearchTask {
  search: Required<Omit<FileSearch, 'cursor'>>
  begin: Bookmark
  entry: Entry
  path: string
  /** The end of the search, by the `performance.now()` of this thread. */
  until_ms: number
}

const TEXT_BYTES_MAX = 1000
const LINES_PER_LOOK = 1024

class Stop extends Error {
  readonly reason: SearchStopReason

  constructor(reason: SearchStopReason) {
    super(reason)
    this.reason = reason
  }
}

/** The rules are those of machine/internal/agent/search. */
export async function runSearch(reads: PageReads, task: SearchTask): Promise<SearchResult> {
  const { search, entry, until_ms } = task
  const state: State = {
    reads,
    search,
    begin: task.begin,
    at: task.begin,
    pattern: compilePattern(search),
    include: search.include.map(compileGlob),
    exclude: search.exclude.map(compileGlob),
    until_ms,
    entries: 0,
    bytes: 0,
    answer_bytes: 0,
    files_scanned: 0,
    matches: [],
    too_deep: false,
  }
  const base = task.path.replace(/\/+$/, '')
  let stopped: SearchStopReason | null = null
  try {
    if (entry.type === 'file') await searchFile(state, entry, base)
    else await searchDirectory(state, entry, `${base}/`, '', stepsOf(state.begin), 1)
  } catch (error) {
    if (!(error instanceof Stop)) throw error
    stopped = error.reason
  }
  const stop_reason = stopped ?? (state.too_deep ? 'depth_limit' : null)
  const next_cursor = stopped === null ? null : cursorOf(state.at)
  return { matches: state.matches, truncated: stop_reason !== null, stop_reason, files_scanned: state.files_scanned, next_cursor }
}

interface State {
  reads: PageReads
  search: SearchTask['search']
  begin: Bookmark
  at: Bookmark
  pattern: SearchPattern
  include: Glob[]
  exclude: Glob[]
  until_ms: number
  entries: number
  bytes: number
  answer_bytes: number
  files_scanned: number
  matches: SearchResult['matches']
  too_deep: boolean
}

async function searchDirectory(
  state: State,
  directory: Entry,
  path: string,
  relative: string,
  steps: readonly string[],
  depth: number,
): Promise<void> {
  if (directory.type !== 'directory') return
  for await (const { name, entry } of listEntries(state.reads, directory)) {
    const { passed, on, rest } = nextOf(steps, name)
    if (passed) continue
    // The position is below a directory, which a file may have replaced since. All lines of that file are searched.
    state.at = on && !(rest.length > 0 && entry.type === 'file') ? state.begin : { path: `${relative}${name}`, number: 0 }
    state.entries += 1
    if (state.entries > LIMITS.search.entries_max) throw new Stop('entry_limit')
    inTime(state)
    const below = `${relative}${name}`
    if (entry.type === 'directory') {
      if (prunes(state, below, name)) continue
      if (depth >= LIMITS.search.depth_max) state.too_deep = true
      else await searchDirectory(state, entry, `${path}${name}/`, `${below}/`, rest, depth + 1)
    }
    if (entry.type === 'file' && takes(state, below, name)) await searchFile(state, entry, `${path}${name}`)
  }
}

function anyOf(globs: readonly Glob[], path: string, name: string): boolean {
  return globs.some((glob) => glob.matches(glob.of_path ? path : name))
}

function takes({ include, exclude }: State, path: string, name: string): boolean {
  return !anyOf(exclude, path, name) && (include.length === 0 || anyOf(include, path, name))
}

function prunes({ exclude }: State, path: string, name: string): boolean {
  return anyOf(exclude, path, name) || exclude.some(({ whole }) => whole?.(path) === true)
}

async function searchFile(state: State, file: FileEntry, path: string): Promise<void> {
  if (file.size === 0 || file.size > state.search.max_file_bytes) return
  state.bytes += file.size
  if (state.bytes > LIMITS.search.bytes_max) throw new Stop('byte_limit')
  const content = await readPart(state.reads.blobs, file, 0, file.size)
  state.files_scanned += 1
  if (content.includes(0) || !state.pattern.possible(content)) return // skip binary files
  searchLines(state, content, path)
}

function searchLines(state: State, content: Buffer, path: string): void {
  const before: Buffer[] = []
  const done = state.at.number
  let number = 0
  for (let from = 0; from < content.length;) {
    state.at = { ...state.at, number: Math.max(number, done) }
    number += 1
    if (number % LINES_PER_LOOK === 0) inTime(state)
    const { line, next } = lineAt(content, from)
    from = next
    const hit = number > done ? state.pattern.find(line) : null
    if (hit !== null) addMatch(state, { path, number, line, hit, before, rest: content.subarray(next) })
    before.push(line)
    if (before.length > state.search.context_lines) before.shift()
  }
}

function lineAt(content: Buffer, from: number): { line: Buffer; next: number } {
  const end = content.indexOf(10, from)
  const line = content.subarray(from, end < 0 ? content.length : end)
  return { line: line.at(-1) === 13 ? line.subarray(0, -1) : line, next: end < 0 ? content.length : end + 1 }
}

interface MatchedLine {
  path: string
  number: number
  line: Buffer
  hit: Hit
  before: readonly Buffer[]
  rest: Buffer
}

function addMatch(state: State, { path, number, line, hit, before, rest }: MatchedLine): void {
  const { max_matches, context_lines } = state.search
  if (state.matches.length === max_matches) throw new Stop('max_matches')
  const after: string[] = []
  for (let from = 0; from < rest.length && after.length < context_lines;) {
    const { line: each, next } = lineAt(rest, from)
    after.push(cut(each))
    from = next
  }
  const match = { path, line: number, column: hit.at + 1, text: around(line, hit), before: before.map(cut), after }
  state.answer_bytes += JSON.stringify(match).length
  if (state.answer_bytes > LIMITS.search.answer_bytes_max) throw new Stop('answer_limit')
  state.matches.push(match)
}

function around(line: Buffer, { at, length }: Hit): string {
  if (line.length <= TEXT_BYTES_MAX) return cut(line)
  let from = Math.max(0, Math.min(at - Math.trunc((TEXT_BYTES_MAX - Math.min(length, TEXT_BYTES_MAX)) / 2), line.length - TEXT_BYTES_MAX))
  while (from > 0 && from < line.length && isInside(line, from)) from += 1
  return cut(line.subarray(from))
}

function cut(line: Buffer): string {
  if (line.length <= TEXT_BYTES_MAX) return line.toString('utf8')
  let end = TEXT_BYTES_MAX
  while (end > TEXT_BYTES_MAX - 4 && isInside(line, end)) end -= 1
  return line.subarray(0, end).toString('utf8')
}

function isInside(line: Buffer, at: number): boolean {
  return ((line[at] ?? 0) & 0xc0) === 0x80
}

function inTime({ until_ms }: State): void {
  if (performance.now() > until_ms) throw new Stop('time_limit')
}
