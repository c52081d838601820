import Type, { type Static, type TObject, type TProperties, type TSchema } from 'typebox'
import { Nullable } from '../schemas/common.ts'

// Parts of the messages between the processes of a computer. tools/wire writes a Go struct for every schema with a title.

const described = (description?: string) => (description === undefined ? {} : { description })

export const Count = (description?: string) => Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, ...described(description) })
export const Name = (description?: string) => Type.String({ maxLength: 512, ...described(description) })
export const Digest = (description?: string) => Type.String({ pattern: '^[0-9a-f]{64}$', ...described(description) })
export const Flag = (description?: string) => Type.Optional(Type.Boolean(described(description)))

/** Null stands for an empty list, because Go writes one as null. */
export const ListOf = <T extends TSchema>(item: T, description?: string) => Nullable(Type.Array(item, described(description)))

/** A message that is used as a field, with a description of its own. */
export const As = <P extends TProperties>(message: TObject<P>, description: string) =>
  Type.Object(message.properties, { title: (message as { title?: string }).title ?? '', description })

/** Names of a vocabulary: a record from each word to its meaning. */
export function wordsOf<W extends string>(vocabulary: Readonly<Record<W, string>>): W[] {
  return Object.keys(vocabulary) as W[]
}

/** A message after its parser has replaced null by an empty list. */
export type Parsed<S extends TSchema> = WithLists<Static<S>>
type WithLists<T> = T extends readonly (infer E)[] ? WithLists<E>[] : T extends object ? { [K in keyof T]: WithoutNull<T[K]> } : T
type WithoutNull<T> = [Extract<T, readonly unknown[]>] extends [never] ? WithLists<T> : WithLists<Exclude<T, null>>
