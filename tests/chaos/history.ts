import { appendFileSync } from 'node:fs'
import type { RequestOptions } from '../support/client.ts'

export interface Accepted {
  path: string
  options: RequestOptions
  operation_id: string
}

export interface History {
  file: string
  violations: string[]
  counts: Map<string, number>
  /** For a day, a repeat of these with the same key names the same operation. */
  accepted: Accepted[]
  note(what: string, about?: object): void
  violate(what: string, about: object): void
  count(what: string, by?: number): void
  most(what: string, value: number): void
}

const SHOWN_MAX = 5

/** @param say receives each violation at once */
export function openHistory(file: string, say: (text: string) => void = (text) => process.stdout.write(text)): History {
  const began_ms = performance.now()
  const write = (what: string, about: object) =>
    appendFileSync(file, `${JSON.stringify({ at_ms: Math.round(performance.now() - began_ms), what, ...about })}\n`)
  const violations: string[] = []
  const counts = new Map<string, number>()
  const count = (what: string, by = 1) => void counts.set(what, (counts.get(what) ?? 0) + by)
  return {
    file,
    violations,
    counts,
    accepted: [],
    count,
    most: (what, value) => void counts.set(what, Math.max(counts.get(what) ?? 0, value)),
    note(what, about = {}) {
      count(what)
      write(what, about)
    },
    violate(what, about) {
      violations.push(`${what} ${JSON.stringify(about)}`)
      write(`VIOLATION: ${what}`, about)
      const same = violations.filter((one) => one.startsWith(what)).length
      if (same <= SHOWN_MAX) say(`${new Date().toISOString()} VIOLATION: ${what} ${JSON.stringify(about)}\n`)
    },
  }
}
