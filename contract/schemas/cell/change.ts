import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, Text, Enum } from '../common.ts'
import { FILE_TYPES, Sha256 } from './file.ts'

/**
 * Differences from the template:
 * - modified: content, or target of a link;
 * - metadata: mode, owner or (of a file) time;
 * - deleted: a directory is listed without its content;
 * - replaced: an entry of another type.
 */
export const CHANGE_KINDS = ['added', 'modified', 'metadata', 'deleted', 'replaced'] as const
export type ChangeKind = (typeof CHANGE_KINDS)[number]

/** `modified` includes changes of mode, owner and type. */
export const FILE_CHANGES = ['added', 'modified', 'deleted'] as const

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

export const ChangesQuery = Type.Object({
  path_prefix: Type.Optional(Type.String({ description: 'Only paths that begin so' })),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LIMITS.file.changes_page_max,
      default: LIMITS.page.size_default,
      description: 'A page may have fewer, and still a next one',
    }),
  ),
  cursor: Type.Optional(
    Text({
      minLength: 1,
      maxLength: LIMITS.page.cursor_characters_max,
      description: 'next_cursor of the page before, for the same filter',
    }),
  ),
  hash: Type.Optional(Type.Boolean({ default: false, description: 'With the SHA-256 of regular files' })),
  summary: Type.Optional(Type.Boolean({ default: false, description: 'Counts instead of entries' })),
})

export const Change = Type.Object(
  {
    path: Type.String(),
    change: Enum(CHANGE_KINDS),
    type: Enum(FILE_TYPES, { description: 'Of what is there; of what was there when deleted' }),
    size: Count,
    mode: Type.String({ pattern: '^[0-7]{4,5}$', description: 'Octal' }),
    sha256: Type.Optional(Sha256),
  },
  { title: 'Change' },
)

const counts = { added: Count, modified: Count, metadata: Count, deleted: Count, replaced: Count }

export const ChangeCounts = Type.Object(counts, { title: 'ChangeCounts' })

/** See the specification (App, "Conventions"). */
export const Changes = Type.Object(
  {
    data: Type.Array(Change, {
      maxItems: LIMITS.file.changes_page_max,
      description:
        'A directory, then what is in it, names byte by byte. Without what the service itself writes, as long as it is so: hostname, hosts, resolv.conf and machine-id below /etc',
    }),
    next_cursor: Nullable(
      Type.String({ pattern: `^[A-Za-z0-9_-]{1,${LIMITS.page.cursor_characters_max}}$`, description: 'null on the last page' }),
    ),
    summary: Nullable(
      Type.Object({
        ...counts,
        truncated: Type.Boolean({ description: 'Counting took too long: there are more' }),
      }),
    ),
  },
  { title: 'Changes' },
)
export type Changes = Static<typeof Changes>
