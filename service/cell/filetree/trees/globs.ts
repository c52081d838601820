import { RE2JS } from 're2js'
import { LIMITS } from '../../../../contract/limits.ts'

/** Alternatives multiply, and a machine expands nested groups one by one. This bounds their number. */
const BRACES_MAX = 3

export interface Glob {
  /** false: it matches the name in any directory. */
  of_path: boolean
  matches(subject: string): boolean
  /** Set for a glob that ends with `/**`: tells whether all contents of a directory match. */
  whole: ((path: string) => boolean) | null
}

/** The rules are those of machine/internal/agent/search. @returns null for a valid glob */
export function globProblem(text: string): string | null {
  const bytes = Buffer.byteLength(text)
  if (bytes === 0 || bytes > LIMITS.search.glob_bytes_max) return `must have 1 to ${LIMITS.search.glob_bytes_max} bytes`
  if (text.split('{').length - 1 > BRACES_MAX) return `must not have more than ${BRACES_MAX} groups of alternatives`
  return isGlob(text) ? null : 'is not a glob'
}

export function compileGlob(given: string): Glob {
  const from = given.replace(/^\.\//, '')
  const of_path = from.replace(/\/$/, '').includes('/')
  const text = from.replace(/^\/+|\/+$/g, '')
  const matches = matcher(text)
  return { of_path, matches, whole: text.endsWith('/**') ? matcher(text.slice(0, -'/**'.length)) : null }
}

function matcher(text: string): (subject: string) => boolean {
  const expression = RE2JS.compile(`^(?:${expressionOf(text)})$`, RE2JS.DOTALL)
  return (subject) => expression.matcher(subject).find()
}

function isGlob(text: string): boolean {
  let groups = 0
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '\\' && ++i >= text.length) return false
    else if (text[i] === '[') {
      const end = endOfClass(text, i)
      if (end < 0) return false
      i = end
    } else if (text[i] === '{') groups += 1
    else if (text[i] === '}' && text[i - 1] !== '\\' && --groups < 0) return false
  }
  return groups === 0
}

/** @returns -1 if the class does not end or is empty */
function endOfClass(text: string, from: number): number {
  let i = from + 1
  if (text[i] === '^' || text[i] === '!') i++
  if (i >= text.length || text[i] === ']') return -1
  for (; i < text.length; i++) {
    if (text[i] === '\\') i++
    else if (text[i] === ']') return i
  }
  return -1
}

function expressionOf(glob: string): string {
  let out = ''
  let is_start = true // of a segment
  for (let i = 0; i < glob.length;) {
    const char = String.fromCodePoint(glob.codePointAt(i) ?? 0)
    const began = is_start
    is_start = false
    if (glob.startsWith('/**', i) && i + 3 === glob.length) return `${out}(?:/.*)?` // matches the directory itself too
    if (glob.startsWith('**', i)) {
      i += 2
      if (began && i === glob.length) return `${out}.*`
      if (began && glob[i] === '/') {
        out += '(?:.*/)?'
        is_start = true
        i += 1
      } else out += '[^/]*'
    } else if (char === '*') {
      out += '[^/]*'
      i += 1
    } else if (char === '?') {
      out += '[^/]'
      i += 1
    } else if (char === '[') {
      const end = endOfClass(glob, i)
      out += classOf(glob.slice(i + 1, end))
      i = end + 1
    } else if (char === '{') {
      const { alternatives, end } = alternativesAt(glob, i)
      out += `(?:${alternatives.map(expressionOf).join('|')})`
      i = end + 1
    } else {
      const literal = char === '\\' ? String.fromCodePoint(glob.codePointAt(i + 1) ?? 0) : char
      i += (char === '\\' ? 1 : 0) + literal.length
      out += RE2JS.quote(literal)
      is_start = literal === '/'
    }
  }
  return out
}

function classOf(inside: string): string {
  const negated = /^[!^]/.test(inside)
  const chars: { char: string; is_escaped: boolean }[] = []
  const text = Array.from(negated ? inside.slice(1) : inside)
  for (let i = 0; i < text.length; i++) {
    const is_escaped = text[i] === '\\' && i + 1 < text.length
    if (is_escaped) i++
    chars.push({ char: text[i] ?? '', is_escaped })
  }
  let out = ''
  for (let i = 0; i < chars.length; i++) {
    const [one, dash, other] = [chars[i], chars[i + 1], chars[i + 2]]
    const is_range = dash?.char === '-' && !dash.is_escaped && other !== undefined
    if (one === undefined) break
    if (!is_range) out += codeOf(one.char)
    else {
      if ((one.char.codePointAt(0) ?? 0) <= (other.char.codePointAt(0) ?? 0)) out += `${codeOf(one.char)}-${codeOf(other.char)}`
      i += 2
    }
  }
  if (out === '') return negated ? '(?s:.)' : '[^\\x00-\\x{10FFFF}]' // only empty ranges
  return `[${negated ? '^' : ''}${out}]`
}

function codeOf(char: string): string {
  return `\\x{${(char.codePointAt(0) ?? 0).toString(16)}}`
}

function alternativesAt(glob: string, from: number): { alternatives: string[]; end: number } {
  const alternatives: string[] = []
  let depth = 0
  let began = from + 1
  for (let i = from; i < glob.length; i++) {
    if (glob[i] === '\\') i++
    else if (glob[i] === '[') i = Math.max(i, endOfClass(glob, i))
    else if (glob[i] === '{') depth += 1
    else if (glob[i] === ',' && depth === 1) {
      alternatives.push(glob.slice(began, i))
      began = i + 1
    } else if (glob[i] === '}' && --depth === 0) return { alternatives: [...alternatives, glob.slice(began, i)], end: i }
  }
  throw new Error('A group of a glob that was checked does not end')
}
