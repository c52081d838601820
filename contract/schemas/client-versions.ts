import Type, { type Static } from 'typebox'
import { Nullable, Enum } from './common.ts'

/** See the specification (App, "Client versions"). */
export const ClientVersions = Type.Object(
  {
    clients: Type.Array(
      Type.Object({
        package: Type.String(),
        ecosystem: Enum(['npm', 'pypi']),
        latest: Nullable(Type.String({ description: 'null while the package is not distributed' })),
        minimum_supported: Type.String(),
        upgrade_command: Type.String(),
        release_notes_url: Type.String(),
      }),
    ),
  },
  { title: 'ClientVersions' },
)
export type ClientVersions = Static<typeof ClientVersions>
