import type { TSchema } from 'typebox'

type Coercion = (text: string) => unknown

/** Decimal integers only: not 0x10, 1e3, +5 or a number beyond the safe range. */
const INTEGER = /^-?\d{1,16}$/
const COERCIONS: Partial<Record<string, Coercion>> = {
  integer: (text) => (INTEGER.test(text) ? Number(text) : text),
  boolean: (text) => (text === 'true' ? true : text === 'false' ? false : text),
}

/** Conversions of parameters that are not strings. Text that cannot be converted is passed on, and the schema refuses it. */
export function coercionsOf(schema: TSchema | undefined): ReadonlyMap<string, Coercion> {
  const { properties = {} } = (schema ?? {}) as { properties?: Record<string, { type?: string }> }
  const found = new Map<string, Coercion>()
  for (const [name, { type }] of Object.entries(properties)) {
    const coercion = type === undefined ? undefined : COERCIONS[type]
    if (coercion) found.set(name, coercion)
  }
  return found
}

export function coerce(coercions: ReadonlyMap<string, Coercion>, values: Record<string, unknown>): void {
  for (const [name, coercion] of coercions) {
    const value = values[name]
    if (typeof value === 'string') values[name] = coercion(value)
  }
}
