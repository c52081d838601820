import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { Change as PublicChange, Changes as PublicChanges } from '../schemas/cell/change.ts'
import {
  FileList as PublicFileList,
  FileMkdir,
  FileMove,
  FilePatch,
  PatchResult as PublicPatchResult,
  Revision,
  WriteResult as PublicWriteResult,
} from '../schemas/cell/file.ts'
import { FileSearch, SearchResult as PublicSearchResult } from '../schemas/cell/search.ts'
import { WatchChange, WatchEnd, WatchOverflow, WatchStart } from '../schemas/cell/watch.ts'
import { Nullable } from '../schemas/common.ts'
import { Flag } from './values.ts'

// Messages of an agent's file calls that differ from the public schemas of contract/schemas/cell.

const { next_cursor } = PublicFileList.properties

export const FileList = Type.Object(
  { ...PublicFileList.properties, next_cursor: Type.Optional(next_cursor) },
  { title: 'FileList', description: 'Agents before protocol 7 send no cursor.' },
)

export const WriteResult = Type.Object(
  {
    ...PublicWriteResult.properties,
    revision: Type.Optional(
      Type.String({ pattern: '^([0-9a-f]{64})?$', description: 'SHA-256 of the whole file afterwards; "": not computed, above 256 MiB.' }),
    ),
  },
  { title: 'WriteResult' },
)

export const MkdirRequest = Type.Object(FileMkdir.properties, { title: 'MkdirRequest' })
export type MkdirRequest = Static<typeof MkdirRequest>

export const MoveRequest = Type.Object(FileMove.properties, { title: 'MoveRequest' })
export type MoveRequest = Static<typeof MoveRequest>

const { path, edits, content, expected_revision } = FilePatch.properties

export const TextEdit = Type.Object(edits.items.properties, { title: 'TextEdit' })

export const PatchRequest = Type.Object(
  { path, edits: Type.Optional(Type.Array(TextEdit)), content, expected_revision },
  { title: 'PatchRequest', description: 'Changes one file atomically: by edits in sequence, or to content.' },
)

export const PatchResult = Type.Object(
  { ...PublicPatchResult.properties, previous_revision: Type.Optional(Revision) },
  { title: 'PatchResult', description: 'The previous revision is "absent" if the file is new, and is left out above 256 MiB.' },
)

const search = FileSearch.properties

export const SearchRequest = Type.Object(
  {
    path: search.path,
    pattern: search.pattern,
    regex: search.regex,
    case_insensitive: search.case_insensitive,
    include: search.include,
    exclude: search.exclude,
    max_matches: Type.Integer(),
    max_file_bytes: Type.Integer(),
    context_lines: search.context_lines,
    cursor: search.cursor,
    on_disk_after_ms: Type.Optional(
      Type.Integer({ minimum: 0, description: 'The search may end with on_disk after this time; 0: never.' }),
    ),
  },
  { title: 'SearchRequest' },
)
export type SearchRequest = Static<typeof SearchRequest>

export const SearchResult = Type.Object(
  {
    on_disk: Flag('The result is empty: the host-side reader can search the same files.'),
    ...PublicSearchResult.properties,
    next_cursor: Type.Optional(PublicSearchResult.properties.next_cursor),
  },
  { title: 'SearchResult' },
)

export const Change = Type.Object(
  {
    ...PublicChange.properties,
    on_disk: Type.Optional(Type.Literal(true, { description: 'Leaves size and mode of a file or symbolic link to the host-side reader.' })),
  },
  { title: 'Change' },
)
export type Change = Static<typeof Change>

const [summary] = PublicChanges.properties.summary.anyOf

export const ChangeSummary = Type.Object(summary.properties, {
  title: 'ChangeSummary',
  description: 'Counts all matching changes, or fewer if truncated.',
})

export const Changes = Type.Object(
  {
    changes: Type.Array(Change, { maxItems: LIMITS.file.changes_page_max }),
    next_cursor: PublicChanges.properties.next_cursor,
    summary: Nullable(ChangeSummary),
  },
  { title: 'Changes', description: "In a walk's order by byte-sorted names; a summary replaces entries." },
)

export const FactsRequest = Type.Object(
  { paths: Type.Array(Type.String()) },
  { title: 'FactsRequest', description: 'The call follows no links.' },
)

const { type, size, mode } = PublicChange.properties

export const Fact = Type.Object({ type, size, mode }, { title: 'Fact' })
export type Fact = Static<typeof Fact>

export const Facts = Type.Object(
  { facts: Type.Array(Nullable(Fact), { maxItems: LIMITS.file.changes_page_max }) },
  { title: 'Facts', description: 'In the order of the paths; null: no such path.' },
)

export const WatchHeartbeat = Type.Object({ type: Type.Literal('heartbeat') })

/** One union, because Go has one struct for all events. */
export const WatchEvent = Type.Union([WatchStart, WatchChange, WatchOverflow, WatchEnd, WatchHeartbeat], { title: 'WatchEvent' })
