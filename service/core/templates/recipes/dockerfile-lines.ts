import { LIMITS } from '../../../../contract/limits.ts'

export interface Instruction {
  line: number
  keyword: string
  rest: string
  heredocs: Heredoc[]
  escape: string
}

export interface Heredoc {
  name: string
  content: string
  /** True if the delimiter is unquoted: variables are expanded. */
  expands: boolean
}

export interface DockerfileProblem {
  line: number
  message: string
}

const WITH_HEREDOCS = ['RUN', 'COPY', 'ADD']
const HEREDOC = /<<(-?)(["']?)([A-Za-z_][A-Za-z0-9_]*)\2/g

export function splitDockerfile(text: string): { instructions: Instruction[]; problems: DockerfileProblem[] } {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  const escape = escapeOf(lines)
  const instructions: Instruction[] = []
  const problems: DockerfileProblem[] = []
  for (let at = 0; at < lines.length;) {
    const line = at + 1
    const { joined, next } = joinLines(lines, at, escape)
    at = next
    const [, keyword = '', rest = ''] = /^\s*(\S+)\s*([^]*)$/.exec(joined) ?? []
    if (keyword === '') continue
    const instruction = { line, keyword: keyword.toUpperCase(), rest: rest.trimEnd(), heredocs: [] as Heredoc[], escape }
    if (WITH_HEREDOCS.includes(instruction.keyword)) {
      const read = readHeredocs(lines, at, instruction.rest)
      if (read === null) {
        // Reading ends here, because all later lines may belong to the heredoc.
        problems.push({ line, message: `the heredoc that begins with << in ${instruction.keyword} has no end` })
        break
      }
      ;({ heredocs: instruction.heredocs, next: at } = read)
    }
    instructions.push(instruction)
    if (instructions.length <= LIMITS.build.dockerfile_instructions_max) continue
    problems.push({ line, message: `it has more than ${LIMITS.build.dockerfile_instructions_max} instructions` })
    break
  }
  return { instructions, problems }
}

/** The escape character. Only comments before the first instruction are directives. */
function escapeOf(lines: readonly string[]): string {
  for (const line of lines) {
    const [, name = '', value = ''] = /^\s*#\s*([a-z]+)\s*=\s*(\S+)\s*$/i.exec(line) ?? []
    if (name === '') break
    if (name.toLowerCase() === 'escape' && (value === '`' || value === '\\')) return value
  }
  return '\\'
}

/** As Docker does, it skips comments and empty lines within continued lines. */
function joinLines(lines: readonly string[], from: number, escape: string): { joined: string; next: number } {
  const parts: string[] = []
  let at = from
  for (; at < lines.length; at++) {
    const line = lines[at] ?? ''
    if (/^\s*#/.test(line) || (parts.length > 0 && line.trim() === '')) {
      if (parts.length > 0) continue
      return { joined: '', next: at + 1 }
    }
    const trimmed = line.trimEnd()
    if (!trimmed.endsWith(escape)) return { joined: parts.concat(line).join(''), next: at + 1 }
    parts.push(trimmed.slice(0, -1))
  }
  return { joined: parts.join(''), next: at }
}

function readHeredocs(lines: readonly string[], from: number, rest: string): { heredocs: Heredoc[]; next: number } | null {
  const heredocs: Heredoc[] = []
  let at = from
  for (const [, dash, quote, name = ''] of rest.matchAll(HEREDOC)) {
    const content: string[] = []
    const plain = (line: string) => (dash === '-' ? line.replace(/^\t+/, '') : line)
    while (at < lines.length && plain(lines[at] ?? '') !== name) content.push(plain(lines[at++] ?? ''))
    if (at >= lines.length) return null
    at += 1
    heredocs.push({ name, content: content.map((line) => `${line}\n`).join(''), expands: quote === '' })
  }
  return { heredocs, next: at }
}
