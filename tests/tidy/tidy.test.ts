import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { sourceFiles, textOf } from './sources.ts'

const tracked = sourceFiles()
const code = tracked.filter((file) => /\.(ts|mjs|go)$/.test(file))
const read = textOf

const GENERATED_TYPES = ['sdk/typescript/src/schemas.ts', 'service/db/schema.ts']

/** The first prefix that matches a file is its layer. */
const LAYERS: { prefix: string; may: string[]; otherwise: string }[] = [
  { prefix: 'contract/', may: ['contract/'], otherwise: 'contract is data: move what it needs into contract/' },
  { prefix: 'sdk/', may: ['sdk/'], otherwise: 'the SDK is a package of its own, for every platform: it knows the service by HTTP alone' },
  { prefix: 'cli/', may: ['cli/', 'sdk/'], otherwise: 'the command line is a client: what it needs of the service, the SDK has' },
  { prefix: 'service/lib/', may: ['contract/', 'service/lib/'], otherwise: 'lib is a leaf: pass what it needs as an argument' },
  {
    prefix: 'service/db/',
    may: ['contract/', 'service/lib/', 'service/db/'],
    otherwise: 'db knows no nouns: put the query into the store.ts of its noun',
  },
  {
    prefix: 'service/http/',
    may: ['contract/', 'service/lib/', 'service/db/', 'service/http/'],
    otherwise: 'the pipeline knows no nouns: hand it a function',
  },
  {
    prefix: 'service/core/',
    may: ['contract/', 'service/lib/', 'service/db/', 'service/http/call.ts', 'service/core/'],
    otherwise: 'core is what api and cell share: it may not know either',
  },
  {
    prefix: 'service/api/',
    may: ['contract/', 'service/lib/', 'service/db/', 'service/http/', 'service/core/', 'service/api/'],
    otherwise: 'api meets the cell in contract, core and the database: put a shared rule into service/core/',
  },
  {
    prefix: 'service/cell/',
    may: ['contract/', 'service/lib/', 'service/db/', 'service/http/', 'service/core/', 'service/cell/'],
    otherwise: 'the cell meets the api in contract, core and the database: put a shared rule into service/core/',
  },
]

function importsOf(file: string): string[] {
  const found = read(file).matchAll(/(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+)'/g)
  return [...found].map(([, target = '']) => path.normalize(path.join(path.dirname(file), target)))
}

test('every import follows the table of layers', () => {
  const wrong = code
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((file) => {
      const layer = LAYERS.find(({ prefix }) => file.startsWith(prefix))
      if (!layer) return []
      return importsOf(file)
        .filter((target) => !layer.may.some((allowed) => target.startsWith(allowed)))
        .map((target) => `${file} imports ${target}: ${layer.otherwise}`)
    })
  assert.deepEqual(wrong, [])
})

test('SQL is in store.ts files only', () => {
  const sql = /\b(selectFrom|insertInto|updateTable|deleteFrom)\(|\bsql`/
  const wrong = code
    .filter((file) => /^service\/(core|api|cell|http|lib)\//.test(file) && !file.endsWith('.test.ts'))
    .filter((file) => !/(^|[/-])store\.ts$/.test(file) && sql.test(read(file)))
    .map((file) => `${file}: move the query into the store.ts of its noun`)
  assert.deepEqual(wrong, [])
})

test('no source file is longer than 400 lines', () => {
  const wrong = code
    .filter((file) => !GENERATED_TYPES.includes(file) && read(file).split('\n').length > 401)
    .map((file) => `${file}: split it by the things it names`)
  assert.deepEqual(wrong, [])
})

test('the SDK imports no platform module, and one package, for platforms without a WebSocket', () => {
  const imports = code
    .filter((file) => file.startsWith('sdk/typescript/src/'))
    .flatMap((file) => [...read(file).matchAll(/(?:from |import\()'([^.'][^']*)'/g)].map(([, name]) => `${file} ${name ?? ''}`))
  assert.deepEqual(imports, ['sdk/typescript/src/web-socket.ts ws'])
})

test('only one place reads the clock', () => {
  const wrong = code
    .filter((file) => /^service\/(core|api|cell|http)\/.*\.ts$/.test(file) && !file.endsWith('.test.ts'))
    .filter((file) => /\bDate\.now\(\)|new Date\(\)/.test(read(file)))
    .map((file) => `${file}: take the time from a Clock (service/lib/clock.ts)`)
  assert.deepEqual(wrong, [])
})

test('ARCHITECTURE.md names every folder of the first level', () => {
  const folders = new Set(
    tracked.filter((file) => file.includes('/') && !file.startsWith('.')).map((file) => file.slice(0, file.indexOf('/'))),
  )
  const text = read('ARCHITECTURE.md')
  assert.deepEqual(
    [...folders].filter((folder) => !text.includes(`\`${folder}/`)),
    [],
  )
})
