import { Type, type Static } from 'typebox'
import { FileListQuery } from './file.ts'

const { path, tree_revision } = FileListQuery.properties

export const TarReadQuery = Type.Object({
  path,
  tree_revision,
  sparse: Type.Optional(
    Type.Boolean({
      default: true,
      description:
        'Sends a file with holes of 1 MiB or more as GNU tar does in its posix format (1.0); false: holes are zeros, for programs that do not know them',
    }),
  ),
})

export const TarWriteQuery = Type.Object({
  path,
  create_parents: Type.Optional(Type.Boolean({ default: false, description: 'Makes the directory where it is missing' })),
  links_out: Type.Optional(
    Type.Boolean({ default: false, description: 'Keeps symbolic links that lead out of the directory; without it they are refused' }),
  ),
})

export const TarResult = Type.Object(
  {
    path: Type.String(),
    entries: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'That the tar has' }),
    bytes: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Of the files in it, with their holes' }),
    durable: Type.Boolean({ description: 'The files and their names survive a power cut' }),
  },
  { title: 'TarResult' },
)
export type TarResult = Static<typeof TarResult>
