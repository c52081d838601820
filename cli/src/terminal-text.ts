const SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])/g

const OTHER_CONTROLS = /[\x00-\x08\x0b-\x1f\x7f]/g

/** Keeps only the last state of a line that was overwritten. */
export function terminalText(output: string): string {
  return output
    .replaceAll(SEQUENCES, '')
    .replaceAll(/\r+\n/g, '\n')
    .split('\n')
    .map((line) => erased(line.slice(line.replace(/\r+$/, '').lastIndexOf('\r') + 1)).replaceAll(OTHER_CONTROLS, ''))
    .join('\n')
}

function erased(line: string): string {
  if (!line.includes('\b')) return line
  const kept: string[] = []
  for (const character of line)
    if (character === '\b') kept.pop()
    else kept.push(character)
  return kept.join('')
}
