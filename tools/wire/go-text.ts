/** A list is a line whose cells gofmt aligns with those of adjacent lines. A string is a line without alignment. */
export type Line = readonly string[] | string

const COLUMNS_MAX = 120

/** Returns comment lines of at most 120 columns, with an indent. */
export function comment(text: string, indent = ''): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && indent.length + last.length + 1 + word.length <= COLUMNS_MAX) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(`// ${word}`)
  }
  return lines.map((line) => `${indent}${line}`)
}

/** Aligns as gofmt does: a column is as wide as its widest cell in consecutive lines that have a next cell. */
export function aligned(lines: readonly Line[]): string[] {
  return lines.map((line, row) => {
    if (typeof line === 'string') return line
    const padded = line.map((cell, column) => (column === line.length - 1 ? cell : cell.padEnd(widthOf(lines, row, column))))
    return `\t${padded.join(' ')}`
  })
}

function widthOf(lines: readonly Line[], row: number, column: number): number {
  const cell = (at: number) => {
    const line = lines[at]
    return typeof line === 'object' && line.length > column + 1 ? line[column] : undefined
  }
  let [first, last] = [row, row]
  while (cell(first - 1) !== undefined) first -= 1
  while (cell(last + 1) !== undefined) last += 1
  return Math.max(...Array.from({ length: last - first + 1 }, (_, at) => cell(first + at)?.length ?? 0))
}
