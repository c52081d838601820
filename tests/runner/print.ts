import { partOf } from './files.ts'
import { failuresOf, totalsOf, type Outcome } from './outcomes.ts'
import type { End } from './record.ts'
import type { FileReport } from './run-file.ts'

const SIGNS: Record<End, string> = { passed: '✔', failed: '✖', follows: '✖', cancelled: '✖', skipped: '﹣', todo: '⚠' }
const ONE_LINE_CHARACTERS_MAX = 300
const ERROR_LINES_MAX = 60
const SLOWEST = 20

export function fileText(report: FileReport, remark = ''): string {
  const lines = [`▶ ${report.file} (${seconds(report.ms)})${remark}`]
  if (report.output.trim() !== '') lines.push(indented(report.output.trimEnd(), '  | '))
  for (const { name, within, end, ms, note } of report.outcomes) {
    const indent = '  '.repeat(within.length + 1)
    const said = end === 'skipped' || end === 'todo' ? ` # ${end === 'skipped' ? 'SKIP' : 'TODO'} ${note}`.trimEnd() : ''
    lines.push(`${indent}${SIGNS[end]} ${name} (${ms.toFixed(1)}ms)${said}`)
    if (end === 'failed') lines.push(indented(firstLines(note), `${indent}  `))
  }
  lines.push(...report.said.map((message) => `  ℹ ${message}`))
  return `${lines.join('\n')}\n`
}

export function failuresText(reports: readonly FileReport[]): string {
  const failed = reports.filter(({ failed }) => failed)
  if (failed.length === 0) return ''
  const texts = failed.map(({ file, outcomes, folder }) => {
    const failures = failuresOf(outcomes).map((each) => `  ✖ ${titleOf(each)}\n${indented(firstLines(each.note), '    ')}`)
    return `${file} (logs: ${folder})\n${failures.join('\n')}`
  })
  return `\n✖ failing tests of ${failed.length} ${failed.length === 1 ? 'file' : 'files'}:\n\n${texts.join('\n\n')}\n`
}

export function slowestText(reports: readonly FileReport[]): string {
  const slowest = reports.toSorted((a, b) => b.ms - a.ms).slice(0, SLOWEST)
  const lines = slowest.map(({ file, ms }) => `  ${seconds(ms).padStart(8)}  ${file}`)
  return `\nThe ${slowest.length} slowest of ${reports.length} files:\n${lines.join('\n')}\n`
}

export function lanesText(
  lanes: readonly { name: string; files: number; ms: number }[],
  reports: readonly FileReport[],
  ms: number,
): string {
  const parts = Map.groupBy(reports, ({ file }) => partOf(file))
  const rows = [
    ...[...parts].map(([part, of]) => ({ name: `part ${part}`, files: of.length, ms: of.reduce((sum, each) => sum + each.ms, 0) })),
    ...lanes.map((lane) => ({ ...lane, name: `lane ${lane.name}` })),
    { name: 'the run', files: reports.length, ms },
  ]
  const lines = rows.map(({ name, files, ms }) => `  ${seconds(ms).padStart(8)}  ${name} (${files})`)
  return `\nThe time of parts (sums of their files), of lanes side by side, and of all:\n${lines.join('\n')}\n`
}

/** Continuous integration parses these lines of node:test. */
export function closingLines(reports: readonly FileReport[], duration_ms: number): string {
  const counts = Object.entries(totalsOf(reports.flatMap(({ outcomes }) => outcomes)))
  return [...counts, ['duration_ms', duration_ms.toFixed(3)] as const].map(([name, value]) => `ℹ ${name} ${value}\n`).join('')
}

export function oneLine(note: string): string {
  const message = note.split(/\n\s+at /, 1)[0] ?? ''
  const text = message.replaceAll(/\s+/g, ' ').trim()
  return text.length > ONE_LINE_CHARACTERS_MAX ? `${text.slice(0, ONE_LINE_CHARACTERS_MAX)}…` : text
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function titleOf({ within, name }: Outcome): string {
  return [...within, name].join(' › ')
}

function firstLines(text: string): string {
  const lines = text.split('\n')
  return lines.length <= ERROR_LINES_MAX
    ? text
    : [...lines.slice(0, ERROR_LINES_MAX), `… ${lines.length - ERROR_LINES_MAX} lines more in the logs`].join('\n')
}

function indented(text: string, indent: string): string {
  return text
    .split('\n')
    .map((line) => `${indent}${line}`)
    .join('\n')
}
