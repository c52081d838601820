import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Enum } from '../common.ts'

const path = Type.String({ description: `Absolute, ${LIMITS.file.path_bytes_max} bytes at most` })

export const GitClone = Type.Object(
  {
    url: Type.String({ maxLength: LIMITS.git.url_characters_max, description: 'https, without user and password' }),
    path,
    branch: Type.Optional(Type.String({ minLength: 1, maxLength: LIMITS.git.ref_characters_max, description: 'A branch or a tag' })),
    depth: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.git.depth_max })),
    authorization_secret: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description:
          'Name of a secret that holds the value of the Authorization header, such as `Basic dXNlcjp0b2tlbg==`. Its `allowed_tools` must include ' +
          '`git`; one with `hosts` must be bound. Not together with X-Git-Authorization',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({ minimum: 1000, maximum: LIMITS.git.clone_timeout_ms_max, default: LIMITS.git.clone_timeout_ms_default }),
    ),
  },
  strict,
)
export type GitClone = Static<typeof GitClone>

export const GitHead = Type.Object(
  {
    path,
    branch: Nullable(Type.String({ description: 'null: HEAD is detached' })),
    commit: Nullable(Type.String({ description: 'null: nothing is committed yet' })),
  },
  { title: 'GitHead' },
)
export type GitHead = Static<typeof GitHead>

export const GitCommitted = Type.Object({ path, branch: GitHead.properties.branch, commit: Type.String() }, { title: 'GitCommitted' })
export type GitCommitted = Static<typeof GitCommitted>

export const GIT_FILE_STATES = [
  'unmodified', 'modified', 'type_changed', 'added', 'deleted', 'renamed', 'copied', 'unmerged', 'untracked',
] as const // prettier-ignore

export const GitFile = Type.Object(
  {
    path: Type.String({ description: 'Below root; what is not UTF-8 is U+FFFD' }),
    index: Enum(GIT_FILE_STATES),
    worktree: Enum(GIT_FILE_STATES),
    renamed_from: Nullable(Type.String({ description: 'Or copied from' })),
    conflicted: Type.Boolean(),
  },
  { title: 'GitFile' },
)

export const GitStatus = Type.Object(
  {
    root: Type.String({ description: 'The top of the working tree' }),
    branch: Nullable(Type.String({ description: 'null: HEAD is detached' })),
    head: Nullable(Type.String({ description: 'The commit; null: nothing is committed yet' })),
    upstream: Nullable(Type.String()),
    ahead: Nullable(Type.Integer({ minimum: 0 })),
    behind: Nullable(Type.Integer({ minimum: 0 })),
    clean: Type.Boolean(),
    files: Type.Array(GitFile, { maxItems: LIMITS.git.status_files_max }),
    truncated: Type.Boolean({ description: 'There are more files than these' }),
  },
  { title: 'GitStatus' },
)
export type GitStatus = Static<typeof GitStatus>

export const GitStatusQuery = Type.Object({ path })

export const GitCommit = Type.Object(
  {
    path,
    message: Type.String({ minLength: 1, maxLength: LIMITS.git.message_characters_max }),
    paths: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        minItems: 1,
        maxItems: LIMITS.git.commit_paths_max,
        description: 'Below path, taken literally; absent: everything that changed. What was staged before is committed too',
      }),
    ),
    author: Type.Optional(
      Type.Object(
        { name: Type.String({ minLength: 1, maxLength: 200 }), email: Type.String({ minLength: 1, maxLength: 200 }) },
        { ...strict, description: "Author and committer; absent: the workspace's own user.name and user.email" },
      ),
    ),
  },
  strict,
)
export type GitCommit = Static<typeof GitCommit>
