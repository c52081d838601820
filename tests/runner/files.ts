import { glob } from 'node:fs/promises'

export const LEDGER = 'tests/ledger/ledger.test.ts'

/** The first match counts. */
const PARTS: [name: string, fits: (file: string) => boolean][] = [
  ['lint', (file) => /^tests\/tidy\/|^tools\/checks\/(types|lint|format)\.test\./.test(file)],
  ['go', (file) => file.startsWith('tools/checks/go')],
  ['ledger', (file) => file === LEDGER],
  ['acceptance', isOnMachines],
  ['unit', () => true],
]
const ORDER = ['lint', 'unit', 'go', 'acceptance', 'ledger']

/** Real machines make a file's time depend on the whole computer's load. */
export function isOnMachines(file: string): boolean {
  return /^tests\/(acceptance|engine|resume)\//.test(file)
}

export function partOf(file: string): string {
  return PARTS.find(([, fits]) => fits(file))?.[0] ?? 'unit'
}

export async function allFiles(root: string): Promise<string[]> {
  const found: string[] = []
  // Examples have their own packages: tests/acceptance/adapters.test.ts runs their tests.
  const exclude = (name: string) => ['node_modules', '.git', 'examples'].includes(name)
  for await (const file of glob('**/*.test.{ts,mjs}', { cwd: root, exclude })) found.push(file)
  return found
}

/** @returns files in running order. Names of parts select parts; other words filter by path. */
export function chosenFrom(files: readonly string[], words: readonly string[]): string[] {
  const parts = words.filter((word) => ORDER.includes(word))
  const substrings = words.filter((word) => !ORDER.includes(word))
  return files
    .filter((file) => parts.length === 0 || parts.includes(partOf(file)))
    .filter((file) => substrings.length === 0 || substrings.some((each) => file.includes(each)))
    .toSorted((a, b) => ORDER.indexOf(partOf(a)) - ORDER.indexOf(partOf(b)) || (a < b ? -1 : 1))
}
