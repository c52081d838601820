import { glob } from 'node:fs/promises'

export const LEDGER = 'tests/ledger/ledger.test.ts'

/** The first part that matches a file counts. */
const PARTS: [name: string, fits: (file: string) => boolean][] = [
  ['lint', (file) => /^tests\/tidy\/|^tools\/checks\/(types|lint|format)\.test\./.test(file)],
  ['go', (file) => file.startsWith('tools/checks/go')],
  ['ledger', (file) => file === LEDGER],
  ['acceptance', isOnMachines],
  ['unit', () => true],
]
const ORDER = ['lint', 'unit', 'go', 'acceptance', 'ledger']

/** These files start real machines, so their times depend on the load of the whole computer. */
export function isOnMachines(file: string): boolean {
  return /^tests\/(acceptance|engine|resume)\//.test(file)
}

export function partOf(file: string): string {
  return PARTS.find(([, fits]) => fits(file))?.[0] ?? 'unit'
}

export async function allFiles(root: string): Promise<string[]> {
  const found: string[] = []
  // Examples are excluded, because they have their own packages: tests/acceptance/adapters.test.ts runs their tests.
  const exclude = (name: string) => ['node_modules', '.git', 'examples'].includes(name)
  for await (const file of glob('**/*.test.{ts,mjs}', { cwd: root, exclude })) found.push(file)
  return found
}

/** @returns files in running order. Words that name parts select these parts; other words filter by path. */
export function chosenFrom(files: readonly string[], words: readonly string[]): string[] {
  const parts = words.filter((word) => ORDER.includes(word))
  const substrings = words.filter((word) => !ORDER.includes(word))
  return files
    .filter((file) => parts.length === 0 || parts.includes(partOf(file)))
    .filter((file) => substrings.length === 0 || substrings.some((each) => file.includes(each)))
    .toSorted((a, b) => ORDER.indexOf(partOf(a)) - ORDER.indexOf(partOf(b)) || (a < b ? -1 : 1))
}
