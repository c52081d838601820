import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Enum } from '../common.ts'

export const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$' })
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

export const FILE_TYPES = ['file', 'directory', 'symlink', 'other'] as const

const NAME = 'Bytes that are not UTF-8 are shown escaped (`\\xff`); a path with such a name cannot be asked for'

/** A symbolic link at the end of the path is described, not followed. */
export const FileInfo = Type.Object(
  {
    path: Type.String({ description: NAME }),
    name: Type.String({ description: NAME }),
    type: Enum(FILE_TYPES),
    size: Count,
    mode: Type.String({ pattern: '^[0-7]{4,5}$', description: 'Octal' }),
    modified_at: Type.String({ format: 'date-time' }),
    revision: Type.Optional(Sha256),
    target: Type.Optional(Type.String({ description: 'Where a symbolic link leads' })),
  },
  { title: 'FileInfo' },
)
export type FileInfo = Static<typeof FileInfo>

export const FileCursor = Type.String({ pattern: `^[A-Za-z0-9_-]{1,${LIMITS.file.cursor_characters_max}}$` })

export const FileList = Type.Object(
  {
    entries: Type.Array(FileInfo),
    truncated: Type.Boolean({ description: 'There is more' }),
    next_cursor: Nullable(
      Type.String({
        pattern: `^[A-Za-z0-9_-]{1,${LIMITS.file.cursor_characters_max}}$`,
        description: 'Of the page that follows; null on the last, and after the names that are read of one directory, 200,000 at most',
      }),
    ),
  },
  { title: 'FileList' },
)
export type FileList = Static<typeof FileList>

/** `revision` is absent for a file above 256 MiB. */
export const WriteResult = Type.Object(
  {
    path: Type.String(),
    bytes_written: Count,
    sha256: Sha256,
    durable: Type.Boolean({ description: 'The bytes and the name survive a power cut' }),
    revision: Type.Optional(Sha256),
  },
  { title: 'WriteResult' },
)
export type WriteResult = Static<typeof WriteResult>

const path = Type.String({ description: `Absolute, UTF-8, ${LIMITS.file.path_bytes_max} bytes at most` })

const tree_revision = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description: `Of a file-first workspace: reads this revision, which is kept for a while after the next one: ${LIMITS.tree.revisions_kept_seconds_default / 60} minutes, unless the deployment says otherwise`,
  }),
)

export const FileReadQuery = Type.Object({ path, tree_revision, offset: Type.Optional(Count), length: Type.Optional(Count) })

export const FileWriteQuery = Type.Object({
  path,
  append: Type.Optional(Type.Boolean({ default: false })),
  mode: Type.Optional(Type.String({ description: 'Octal' })),
  create_parents: Type.Optional(Type.Boolean({ default: false })),
})

export const FileRemoveQuery = Type.Object({ path, recursive: Type.Optional(Type.Boolean({ default: false })) })

export const FileStatQuery = Type.Object({ path, tree_revision, revision: Type.Optional(Type.Boolean({ default: false })) })

export const FileListQuery = Type.Object({
  path,
  tree_revision,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.file.list_entries_max, default: LIMITS.file.list_entries_default })),
  cursor: Type.Optional(FileCursor),
  recursive: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'What is below it, too: a directory, then what is in it. No link is followed, and what is mounted below is not entered',
    }),
  ),
})

export const FileMkdir = Type.Object(
  { path, parents: Type.Optional(Type.Boolean()), mode: Type.Optional(Type.String({ description: 'Octal' })) },
  strict,
)

export const FileMove = Type.Object({ from: path, to: path, overwrite: Type.Optional(Type.Boolean()) }, strict)

export const Revision = Type.String({
  pattern: '^([0-9a-f]{64}|absent)$',
  description: 'SHA-256 of the content, or `absent` for a file that is not there',
})

export const FilePatch = Type.Object(
  {
    path,
    edits: Type.Optional(
      Type.Array(
        Type.Object(
          {
            old_text: Type.String({ description: 'Not empty. Occurs exactly once, unless `replace_all` is set' }),
            new_text: Type.String(),
            replace_all: Type.Optional(Type.Boolean({ default: false })),
          },
          strict,
        ),
        {
          description: `Each applies to the text that the one before left; at most ${LIMITS.file.patch_edits_max}, in UTF-8 text of at most ${LIMITS.file.patch_file_bytes_max} bytes`,
        },
      ),
    ),
    content: Type.Optional(Type.String({ description: 'The whole new content, of a new file as well' })),
    expected_revision: Type.Optional(Revision),
  },
  { ...strict, title: 'FilePatch', description: 'Exactly one of `edits` and `content`' },
)
export type FilePatch = Static<typeof FilePatch>

export const PatchResult = Type.Object(
  {
    path: Type.String(),
    revision: Sha256,
    previous_revision: Type.Optional(
      Type.Union([Sha256, Type.Null()], { description: 'null where the patch made the file; absent above 256 MiB' }),
    ),
    bytes_written: Count,
    durable: Type.Boolean({ description: 'The bytes and the name survive a power cut' }),
    replacements: Count,
    file: FileInfo,
  },
  { title: 'PatchResult' },
)
export type PatchResult = Static<typeof PatchResult>
