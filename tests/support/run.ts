// Runs test files one after the other in one run of node:test, the fast ones first, on one shared PostgreSQL.
import { glob } from 'node:fs/promises'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { OBSERVED_VARIABLE, WHOLE_VARIABLE } from '../ledger/observations.ts'
import { SHARED_SERVER_VARIABLE, startTestServer } from './postgres.ts'
import { sweepServers, sweepServices } from './sweep.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const FILE_MS = 40 * 60_000
/** In the order in which they run; the first that fits a file is its part. */
const PARTS: { name: string; fits: (file: string) => boolean }[] = [
  {
    name: 'lint',
    fits: (file) => file.startsWith('tests/tidy/') || file === 'tools/checks/types.test.mjs' || file === 'tools/checks/lint.test.mjs',
  },
  { name: 'go', fits: (file) => file === 'tools/checks/go.test.mjs' },
  { name: 'ledger', fits: (file) => file === 'tests/ledger/ledger.test.ts' },
  { name: 'acceptance', fits: (file) => /^tests\/(acceptance|engine)\//.test(file) },
  { name: 'unit', fits: () => true },
]
const ORDER = ['lint', 'unit', 'go', 'acceptance', 'ledger']

const files = await chosenFiles(process.argv.slice(2))
if (files.length === 0) throw new Error('No test file fits')
await sweepServices() // what a killed run left
await sweepServers()
const server = await startTestServer()
process.env[SHARED_SERVER_VARIABLE] = server.socket_dir
// What every test sees of the service, for the ledger that is judged at the end.
const observed = mkdtempSync(path.join(tmpdir(), 'berth-observed-'))
process.env[OBSERVED_VARIABLE] = observed
if (process.argv.length === 2) process.env[WHOLE_VARIABLE] = '1'
const execArgv = ['--import', path.join(ROOT, 'tests/support/observe.ts')]
const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interruption.abort())

// One at a time: the acceptance tests measure, and a computer with two cores has none to spare.
const results = run({
  files: files.map((file) => path.join(ROOT, file)),
  concurrency: 1,
  timeout: FILE_MS,
  signal: interruption.signal,
  execArgv,
})
results.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1
})
for await (const text of results.compose(new spec()) as AsyncIterable<string>) process.stdout.write(text)
await sweepServices()
rmSync(observed, { recursive: true, force: true })
server.stop()
if (interruption.signal.aborted) process.exitCode = 1
process.exit()

async function chosenFiles(words: string[]): Promise<string[]> {
  const found: string[] = []
  const exclude = (name: string) => name === 'node_modules' || name === '.git'
  for await (const file of glob('**/*.test.{ts,mjs}', { cwd: ROOT, exclude })) found.push(file)
  const parts = words.filter((word) => ORDER.includes(word))
  const substrings = words.filter((word) => !ORDER.includes(word))
  return found
    .filter((file) => parts.length === 0 || parts.includes(partOf(file)))
    .filter((file) => substrings.length === 0 || substrings.some((each) => file.includes(each)))
    .sort((a, b) => ORDER.indexOf(partOf(a)) - ORDER.indexOf(partOf(b)) || (a < b ? -1 : 1))
}

function partOf(file: string): string {
  return PARTS.find(({ fits }) => fits(file))?.name ?? 'unit'
}
