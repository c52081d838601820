/** A line of cells that gofmt aligns with its neighbours, or a line that stands alone. */
export type Line = readonly string[] | string

const COLUMNS_MAX = 120

/** Comment lines of at most 120 columns, at an indent. */
export function comment(text: string, indent = ''): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && indent.length + last.length + 1 + word.length <= COLUMNS_MAX) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(`// ${word}`)
  }
  return lines.map((line) => `${indent}${line}`)
}

/** Aligns as gofmt does: a column's width is that of its widest cell in consecutive lines that have a next cell. */
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
