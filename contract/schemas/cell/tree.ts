import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Text, Timestamp } from '../common.ts'
import { ChangeCounts, Changes, ChangesQuery } from './change.ts'

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const TreeRevision = (description: string) => Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description })

const cursor = Type.Optional(
  Text({ minLength: 1, maxLength: LIMITS.page.cursor_characters_max, description: 'next_cursor of the page before' }),
)
const next_cursor = Nullable(
  Type.String({ pattern: `^[A-Za-z0-9_-]{1,${LIMITS.page.cursor_characters_max}}$`, description: 'null on the last page' }),
)

export const TreeRevisionsQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.page.size_max, default: LIMITS.page.size_default })),
  cursor,
})

export const TreeRevisionRecord = Type.Object(
  {
    tree_revision: Count,
    created_at: Nullable(Timestamp('null: of a release that did not keep it')),
    entries: Nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Files, directories and links' })),
    bytes: Nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Of all files' })),
    changes: Nullable(ChangeCounts),
    made_by: Nullable(
      Type.Object(
        {
          call: Nullable(Type.String({ description: 'The id of the route that was called, as in OpenAPI: files.write' })),
          execution_id: Nullable(Type.String({ description: 'Of the command that published it' })),
        },
        { description: 'null: nobody: the tree began with it, or it is of a release that did not keep it' },
      ),
    ),
  },
  { title: 'TreeRevision' },
)

export const TreeRevisions = Type.Object(
  {
    data: Type.Array(TreeRevisionRecord, {
      maxItems: LIMITS.page.size_max,
      description: 'The current one first. `changes` counts against the revision before; null: nobody counted',
    }),
    next_cursor,
  },
  { title: 'TreeRevisions' },
)
export type TreeRevisions = Static<typeof TreeRevisions>

const { path_prefix, limit, summary } = ChangesQuery.properties
export const TreeDiffQuery = Type.Object({
  from: TreeRevision('The revision that is compared with'),
  to: Type.Optional(TreeRevision('The revision that is compared; the current one where it is not said')),
  path_prefix,
  limit,
  cursor: Type.Optional(
    Text({
      minLength: 1,
      maxLength: LIMITS.page.cursor_characters_max,
      description:
        'next_cursor of the page before, for the same revisions and filter. Without `to` it goes on with the revision of the first page',
    }),
  ),
  summary,
})

export { Changes as TreeDiff }

export const TreeRestore = Type.Object({ tree_revision: TreeRevision('A revision that is kept') }, strict)

export const TreeRestored = Type.Object(
  {
    tree_revision: TreeRevision('The new revision, which is now the current one'),
    restored_revision: TreeRevision('Whose files it has'),
  },
  { title: 'TreeRestored' },
)
