import { appendFileSync } from 'node:fs'

/** Everything that was acknowledged, line by line, and what contradicts it. */
export interface History {
  file: string
  violations: string[]
  counts: Map<string, number>
  note(what: string, about?: object): void
  violate(what: string, about: object): void
  /** Sets a cumulative figure for the summary. */
  count(what: string): void
}

export function openHistory(file: string): History {
  const began_ms = performance.now()
  const write = (what: string, about: object) =>
    appendFileSync(file, `${JSON.stringify({ at_ms: Math.round(performance.now() - began_ms), what, ...about })}\n`)
  const violations: string[] = []
  const counts = new Map<string, number>()
  const count = (what: string) => void counts.set(what, (counts.get(what) ?? 0) + 1)
  return {
    file,
    violations,
    counts,
    count,
    note(what, about = {}) {
      count(what)
      write(what, about)
    },
    violate(what, about) {
      violations.push(`${what} ${JSON.stringify(about)}`)
      write(`VIOLATION: ${what}`, about)
      process.stdout.write(`VIOLATION: ${what} ${JSON.stringify(about)}\n`)
    },
  }
}
