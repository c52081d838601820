/** Replaces null by an empty list in fields of these names, at any depth: Go encodes an empty slice as null. */
export function withLists(value: unknown, names: ReadonlySet<string>): unknown {
  if (Array.isArray(value)) return value.map((inner) => withLists(inner, names))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, inner === null && names.has(key) ? [] : withLists(inner, names)]),
  )
}
