const CHARACTERS_MAX = 64
/** Up to this many edits count as a typing error. */
const SURE_EDITS = 2

/** @returns the known name that was most likely meant; undefined if none is similar. Pure. */
export function nearest(wrong: string, known: readonly string[]): string | undefined {
  if (wrong.length > CHARACTERS_MAX) return undefined
  const plain = simple(wrong)
  // `observed_state` is more likely `state` than another name of similar length.
  const last = known.find((name) => wrong.endsWith(`_${name}`))
  let best: string | undefined
  let best_edits = Math.max(1, Math.floor(plain.length / 3)) + 1 // so that up to a third of the letters may be wrong
  for (const name of known) {
    const edits = editsBetween(plain, simple(name))
    if (edits < best_edits) [best, best_edits] = [name, edits]
  }
  return last !== undefined && best_edits > SURE_EDITS ? last : best
}

/** Removes differences of spelling that must not count as edits: includeDeleted, include-deleted. */
function simple(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9]/g, '').toLowerCase()
}

/** Edit distance with swaps of neighbours (optimal string alignment). */
function editsBetween(a: string, b: string): number {
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min((above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + cost)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) least = Math.min(least, (before[j - 2] ?? 0) + 1)
      row.push(least)
    }
    ;[before, above] = [above, row]
  }
  return above[b.length] ?? 0
}
