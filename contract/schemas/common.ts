import Type, { type Static, type TSchema } from 'typebox'
import { LIMITS } from '../limits.ts'

/** Objects with unknown fields are refused. */
export const strict = { additionalProperties: false } as const

export const Uuid = (description?: string) => Type.String({ format: 'uuid', ...(description === undefined ? {} : { description }) })
export const Timestamp = (description?: string) =>
  Type.String({ format: 'date-time', ...(description === undefined ? {} : { description }) })
export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export function Enum<const W extends readonly string[]>(words: W, options: { description?: string } = {}) {
  return Type.Unsafe<W[number]>({ type: 'string', enum: [...words], ...options })
}

/** Lists code points, because not every consumer of the OpenAPI document supports \p. */
const TEXT_PATTERN = '^[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff]*$'

/** Text that PostgreSQL can store and a terminal can show. Lone surrogates are refused, because UTF-8 would alter them. */
export const Text = (options: { minLength: number; maxLength: number; description?: string }) =>
  Type.String({ pattern: TEXT_PATTERN, ...options })

/** Text that may contain line breaks. */
export const FreeText = (options: { minLength: number; maxLength: number; description?: string }) =>
  Type.String({ pattern: '^[^\\u0000\\ud800-\\udfff]*$', ...options })

export const PageQuery = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: LIMITS.page.size_max, default: LIMITS.page.size_default, description: 'Rows of a page' }),
  ),
  cursor: Type.Optional(
    Text({ minLength: 1, maxLength: LIMITS.page.cursor_characters_max, description: 'next_cursor of the page before' }),
  ),
}

/** See the specification (App, "Conventions"). */
export const List = <T extends TSchema>(item: T, title: string) =>
  Type.Object({ data: Type.Array(item), next_cursor: Nullable(Type.String({ description: 'null on the last page' })) }, { title })

export const ResourcesView = Type.Object(
  { cpu_millis: Type.Integer(), memory_mib: Type.Integer(), disk_gib: Type.Integer() },
  { title: 'Resources' },
)
export type ResourcesView = Static<typeof ResourcesView>

const int4_max = 2 ** 31 - 1
export const Caps = Type.Object(
  {
    cpu_millis: Type.Optional(Type.Integer({ minimum: 1, maximum: int4_max })),
    memory_mib: Type.Optional(Type.Integer({ minimum: 1, maximum: int4_max })),
    disk_gib: Type.Optional(Type.Integer({ minimum: 1, maximum: int4_max })),
  },
  {
    ...strict,
    title: 'Caps',
    description:
      "Upper bounds, up to the template's ceiling; an absent one leaves the template's default size, a fork's that of its source",
  },
)
export type Caps = Static<typeof Caps>

export const IfMatch = Type.Object({
  'If-Match': Type.Optional(
    Type.String({
      pattern: '^(?:[0-9]{1,9}|"[0-9]{1,9}")$',
      description: 'The version that the caller has seen, bare or quoted: refused with version_mismatch where there is another',
    }),
  ),
})
