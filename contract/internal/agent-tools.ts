import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { Flag } from './values.ts'

// Messages about git, the browser and listening ports of a guest.

const environment = (description: string) => Type.Optional(Type.Record(Type.String(), Type.String(), { description }))

export const GitRequest = Type.Object(
  { path: Type.String(), env: environment("The agent's settings override it."), timeout_ms: Type.Integer() },
  { title: 'GitRequest', description: 'Part of every call.' },
)
export type GitRequest = Static<typeof GitRequest>

export const GitCloneRequest = Type.Object(
  {
    ...GitRequest.properties,
    url: Type.String(),
    branch: Type.Optional(Type.String()),
    depth: Type.Optional(Type.Integer({ minimum: 1 })),
    authorization: Type.Optional(
      Type.String({ description: "The header's value. The agent passes it through git's environment only, for the URL's host only." }),
    ),
  },
  { title: 'GitCloneRequest' },
)
export type GitCloneRequest = Static<typeof GitCloneRequest>

export const GitAuthor = Type.Object({ name: Type.String(), email: Type.String() }, { title: 'GitAuthor' })

export const GitCommitRequest = Type.Object(
  {
    ...GitRequest.properties,
    message: Type.String(),
    paths: Type.Optional(Type.Array(Type.String(), { description: 'Relative to path. Absent: all changes.' })),
    author: Type.Optional(GitAuthor),
  },
  { title: 'GitCommitRequest', description: 'Adds the paths and commits the index.' },
)
export type GitCommitRequest = Static<typeof GitCommitRequest>

export const BrowserRequest = Type.Object(
  {
    url: Type.String(),
    width: Type.Integer(),
    height: Type.Integer(),
    wait_until: Type.String({ description: 'load, domcontentloaded, networkidle' }),
    wait_ms: Type.Optional(Type.Integer({ minimum: 0 })),
    timeout_ms: Type.Integer(),
    env: environment('Of the browser, if it has yet to be started.'),
    full_page: Flag(),
    format: Type.Optional(Type.String({ description: 'Of content: html, text' })),
  },
  { title: 'BrowserRequest', description: 'One page.' },
)
export type BrowserRequest = Static<typeof BrowserRequest>

const ADDRESS_CHARACTERS_MAX = 45

export const Listeners = Type.Object(
  { addresses: Type.Array(Type.String({ maxLength: ADDRESS_CHARACTERS_MAX }), { maxItems: LIMITS.port.addresses_max }) },
  { title: 'Listeners', description: 'Addresses that listen on one port, wildcards first.' },
)
