import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Enum } from '../common.ts'

const Globs = Type.Array(Type.String(), {
  maxItems: LIMITS.search.globs_max,
  description: `Globs with \`**\` and \`{a,b}\`, ${LIMITS.search.glob_bytes_max} bytes at most. One with a slash is of the path below \`path\`, one without of the name, at any depth; an excluded directory is left out with all below it`,
})

/** Reasons why a search ended early. Its answer contains the matches found before. */
export const SEARCH_STOP_REASONS = {
  max_matches: 'there are more matches than `max_matches`',
  time_limit: `it took ${LIMITS.search.seconds_max} seconds`,
  byte_limit: `files of ${LIMITS.search.bytes_max} bytes were read`,
  entry_limit: `${LIMITS.search.entries_max} entries of directories were looked at, or one directory has 200,000`,
  answer_limit: `the matches have ${LIMITS.search.answer_bytes_max} bytes`,
  depth_limit: `directories lie more than ${LIMITS.search.depth_max} deep: what is deeper was left out, the rest was searched`,
} as const
export type SearchStopReason = keyof typeof SEARCH_STOP_REASONS
const STOP_REASONS = Object.keys(SEARCH_STOP_REASONS) as SearchStopReason[]

export const FileSearch = Type.Object(
  {
    path: Type.String({ description: 'A directory, or one file' }),
    pattern: Type.String({
      description: `A literal, or with \`regex\` an RE2 expression, matched line by line; ${LIMITS.search.pattern_bytes_max} bytes at most`,
    }),
    regex: Type.Optional(Type.Boolean({ default: false })),
    case_insensitive: Type.Optional(Type.Boolean({ default: false })),
    include: Type.Optional(Globs),
    exclude: Type.Optional(Globs),
    max_matches: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.search.matches_max, default: LIMITS.search.matches_default })),
    max_file_bytes: Type.Optional(
      Type.Integer({
        minimum: 1,
        default: LIMITS.search.file_bytes_default,
        description: `Larger files are skipped, as binary ones (with a NUL) are, and what is no regular file; links are not followed. More than ${LIMITS.search.file_bytes_max} counts as that`,
      }),
    ),
    context_lines: Type.Optional(Type.Integer({ minimum: 0, maximum: LIMITS.search.context_lines_max, default: 0 })),
    cursor: Type.Optional(
      Type.String({
        pattern: `^[A-Za-z0-9_-]{1,${LIMITS.file.cursor_characters_max}}$`,
        description: '`next_cursor` of the answer before, to the same request: it goes on there',
      }),
    ),
  },
  { ...strict, title: 'FileSearch' },
)
export type FileSearch = Static<typeof FileSearch>

const Line = Type.String({ description: 'Cut to 1,000 bytes; bytes that are not UTF-8 are shown as U+FFFD' })

export const SearchMatch = Type.Object(
  {
    path: Type.String(),
    line: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    column: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Byte of the line, from 1' }),
    text: Line,
    before: Type.Array(Line, { maxItems: LIMITS.search.context_lines_max }),
    after: Type.Array(Line, { maxItems: LIMITS.search.context_lines_max }),
  },
  { title: 'SearchMatch' },
)

export const SearchResult = Type.Object(
  {
    matches: Type.Array(SearchMatch, { maxItems: LIMITS.search.matches_max, description: 'By path and line; one a line' }),
    truncated: Type.Boolean(),
    stop_reason: Nullable(
      Enum(STOP_REASONS, {
        description: `null: everything was searched. ${STOP_REASONS.map((reason) => `${reason}: ${SEARCH_STOP_REASONS[reason]}`).join('; ')}`,
      }),
    ),
    files_scanned: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    next_cursor: Nullable(
      Type.String({
        pattern: `^[A-Za-z0-9_-]{1,${LIMITS.file.cursor_characters_max}}$`,
        description: 'Where a search that stopped goes on; null where everything was searched that can be',
      }),
    ),
  },
  { title: 'SearchResult' },
)
export type SearchResult = Static<typeof SearchResult>
