import { Type, type Static } from 'typebox'
import { Enum } from '../common.ts'
import { FileListQuery } from './file.ts'
import { COMMON_STREAM_EVENTS } from './session.ts'

const { path } = FileListQuery.properties
const WATCH_ID = '^[A-Za-z0-9]{1,64}$'
const offset = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Where to go on behind this event' })

export const WatchQuery = Type.Object({
  path,
  recursive: Type.Optional(Type.Boolean({ default: false, description: 'With all directories below it, of the same file system' })),
  watch_id: Type.Optional(
    Type.String({ pattern: WATCH_ID, description: 'Of the `start` event, to go on with that watch; without it another one begins' }),
  ),
  offset: Type.Optional(
    Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 0, description: 'Of the last event that was seen' }),
  ),
})

/** A new entry is `added`, even if it replaces another. A move is reported as `deleted` and `added`. */
export const WATCHED_CHANGES = ['added', 'modified', 'metadata', 'deleted'] as const

export const WatchStart = Type.Object({
  type: Type.Literal('start'),
  watch_id: Type.String({ pattern: WATCH_ID }),
  offset,
  missed: Type.Boolean({ description: 'The watch could not go on at the offset that was asked for: look at the whole directory again' }),
})
export const WatchChange = Type.Object({
  type: Type.Literal('change'),
  offset,
  path: Type.String({ description: 'Bytes that are not UTF-8 are shown escaped (`\\xff`)' }),
  change: Enum(WATCHED_CHANGES),
  is_directory: Type.Boolean(),
})
export const WatchOverflow = Type.Object({
  type: Type.Literal('overflow'),
  offset,
  why: Enum(['events', 'directories'], {
    description: 'events: some were lost, look at the whole directory again; directories: there are more than are watched, once a watch',
  }),
})
export const WatchEnd = Type.Object({
  type: Type.Literal('end'),
  offset,
  why: Enum(['deleted', 'moved'], { description: 'What became of the directory' }),
})

export const WatchEvent = Type.Union([WatchStart, WatchChange, WatchOverflow, WatchEnd, ...COMMON_STREAM_EVENTS])
export type WatchEvent = Static<typeof WatchEvent>
export type WatchAsked = Static<typeof WatchQuery>
