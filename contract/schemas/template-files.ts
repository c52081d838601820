import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { FILE_CHANGES } from './cell/change.ts'
import { FILE_TYPES, Sha256 } from './cell/file.ts'
import { List, Nullable, PageQuery, Enum } from './common.ts'

const NAME = 'Bytes that are not UTF-8 are shown escaped (`\\xff`); a path with such a name cannot be asked for'
const Count = Type.Integer({ minimum: 0 })
const Digest = Type.String({ ...Sha256, description: 'Of what a file holds; null: it is none' })

/** Describes a symbolic link instead of following it. */
export const TemplateFile = Type.Object(
  {
    path: Type.String({ description: NAME }),
    name: Type.String({ description: NAME }),
    type: Enum(FILE_TYPES),
    size_bytes: Count,
    mode: Type.String({ pattern: '^[0-7]{4}$', description: 'Octal' }),
    uid: Count,
    gid: Count,
    sha256: Nullable(Digest),
    target: Nullable(Type.String({ description: 'Where a symbolic link leads; null: it is none' })),
  },
  { title: 'TemplateFile' },
)
export type TemplateFile = Static<typeof TemplateFile>
export const TemplateFileList = List(TemplateFile, 'TemplateFileList')

/** `before` is the entry in the version given as `against`. */
export const TemplateFileChange = Type.Object(
  {
    path: Type.String({ description: NAME }),
    change: Enum(FILE_CHANGES),
    before: Nullable(TemplateFile),
    after: Nullable(TemplateFile),
  },
  { title: 'TemplateFileChange' },
)
export type TemplateFileChange = Static<typeof TemplateFileChange>
export const TemplateFileChangeList = List(TemplateFileChange, 'TemplateFileChangeList')

const { files_page_max, path_bytes_max } = LIMITS.template_file
const page = {
  ...PageQuery,
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: files_page_max, default: LIMITS.page.size_default, description: 'Rows of a page' }),
  ),
}

export const TemplateFilesQuery = Type.Object({
  ...page,
  path: Type.Optional(
    Type.String({
      pattern: '^(/|(/(?!\\.{1,2}(/|$))[^/\\u0000\\ud800-\\udfff]+)+)$',
      maxLength: path_bytes_max,
      default: '/',
      description: 'Of a directory, whose entries are listed, or of anything else, which is the only row',
    }),
  ),
})

export const TemplateDiffQuery = Type.Object({
  ...page,
  against: Type.Optional(
    Type.String({
      pattern: '^([a-z0-9][a-z0-9-]{0,62}@)?[1-9][0-9]{0,8}$',
      description:
        'The version that it is compared with: a number of the same template, or slug@number; absent: the one before, of the first one nothing',
    }),
  ),
})
