import { RE2JS } from 're2js'
import type { FileSearch } from '../../../../contract/schemas/cell/search.ts'

export interface Hit {
  at: number
  length: number
}

export interface SearchPattern {
  /** A quick check of a whole file: false means that no line can match. */
  possible(content: Buffer): boolean
  find(line: Buffer): Hit | null
}

/** A regular expression with more instructions is refused, because it costs too much time for each byte. */
const INSTRUCTIONS_MAX = 10_000

/** @returns null for a valid pattern */
export function patternProblem(search: Pick<FileSearch, 'pattern' | 'regex' | 'case_insensitive'>): string | null {
  if (search.regex !== true && /[\n\0]/.test(search.pattern)) return 'must not contain a line break or NUL: lines are matched one by one'
  try {
    const expression = expressionOf(search)
    return expression !== null && expression.programSize() > INSTRUCTIONS_MAX ? 'is too complex' : null
  } catch (error) {
    return `is not a regular expression of RE2: ${error instanceof Error ? error.message : ''}`
  }
}

export function compilePattern(search: Pick<FileSearch, 'pattern' | 'regex' | 'case_insensitive'>): SearchPattern {
  const expression = expressionOf(search)
  if (expression === null) {
    const literal = Buffer.from(search.pattern)
    return {
      possible: (content) => content.includes(literal),
      find(line) {
        const at = line.indexOf(literal)
        return at < 0 ? null : { at, length: literal.length }
      },
    }
  }
  return {
    possible: () => true,
    find(line) {
      const matcher = expression.matcher(line)
      return matcher.find() ? { at: matcher.start(), length: matcher.end() - matcher.start() } : null
    },
  }
}

/** @returns null for a literal pattern */
function expressionOf({ pattern, regex, case_insensitive }: Pick<FileSearch, 'pattern' | 'regex' | 'case_insensitive'>): RE2JS | null {
  if (regex !== true && case_insensitive !== true) return null
  const text = regex === true ? pattern : RE2JS.quote(pattern)
  return RE2JS.compile(text, case_insensitive === true ? RE2JS.CASE_INSENSITIVE : 0)
}
