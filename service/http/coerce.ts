import type { TSchema } from 'typebox'

type Coercion = (text: string) => unknown

/** Digits as people write them; not 0x10, 1e3, +5 or a number that no machine holds. */
const INTEGER = /^-?\d{1,16}$/
const COERCIONS: Partial<Record<string, Coercion>> = {
  integer: (text) => (INTEGER.test(text) ? Number(text) : text),
  boolean: (text) => (text === 'true' ? true : text === 'false' ? false : text),
}

/** How the parameters of a schema that are not strings are read from their text. What cannot be read stays text, which the schema refuses. */
export function coercionsOf(schema: TSchema | undefined): ReadonlyMap<string, Coercion> {
  const { properties = {} } = (schema ?? {}) as { properties?: Record<string, { type?: string }> }
  const found = new Map<string, Coercion>()
  for (const [name, { type }] of Object.entries(properties)) {
    const coercion = type === undefined ? undefined : COERCIONS[type]
    if (coercion) found.set(name, coercion)
  }
  return found
}

/** Converts in place. */
export function coerce(coercions: ReadonlyMap<string, Coercion>, values: Record<string, unknown>): void {
  for (const [name, coercion] of coercions) {
    const value = values[name]
    if (typeof value === 'string') values[name] = coercion(value)
  }
}
