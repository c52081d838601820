/** A column may be a path such as `template.slug`. */
export function table(rows: readonly object[], columns: readonly string[]): string {
  const head = columns.map((column) => (column.split('.').at(-1) ?? column).toUpperCase())
  const lines = rows.map((row) => columns.map((column) => cell(column.split('.').reduce<unknown>(field, row))))
  const widths = head.map((name, at) => Math.max(name.length, ...lines.map((line) => line[at]?.length ?? 0)))
  return [head, ...lines]
    .map((line) =>
      line
        .map((text, at) => text.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

export function fields(value: object): string {
  const shown = Object.entries(value).filter(([, each]) => each !== null && each !== undefined)
  const width = Math.max(0, ...shown.map(([name]) => name.length))
  return shown.map(([name, each]) => `${name.padEnd(width)}  ${cell(each)}`).join('\n')
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}

/** Names come from other users, so control characters are escaped. */
function cell(value: unknown): string {
  return escapeLine(value === null || value === undefined ? '-' : typeof value === 'string' ? value : JSON.stringify(value))
}

/** Control characters, and characters that change the direction of text. */
const STEERING = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

export function escapeLines(text: string): string {
  return text.split('\n').map(escapeLine).join('\n')
}

export function escapeLine(text: string): string {
  return text.replaceAll(STEERING, (character) => {
    const code = character.charCodeAt(0).toString(16)
    return code.length > 2 ? `\\u${code.padStart(4, '0')}` : `\\x${code.padStart(2, '0')}`
  })
}
