import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { APP_CLAUSES } from '../../tools/reference/clauses/app.ts'
import { CELL_CLAUSES } from '../../tools/reference/clauses/cell.ts'
import { sourceFiles, textOf } from './sources.ts'

const root = path.resolve(import.meta.dirname, '../..')
const CLAUSES = { App: APP_CLAUSES, Cell: CELL_CLAUSES }

test('every clause that code names is in tools/reference/clauses, with at least the named rule', () => {
  const missing = named().filter(({ surface, name, rule }) => {
    const clause = CLAUSES[surface].find((one) => one.name === name)
    return clause === undefined || (rule > 0 && typeof clause.says !== 'string' && rule > clause.says.length)
  })
  assert.deepEqual(missing, [])
})

test('every test that a clause names exists, and clause names are unique', () => {
  for (const clauses of Object.values(CLAUSES)) {
    for (const { name, tests } of clauses) for (const file of tests) assert.ok(existsSync(path.join(root, file)), `${name}: ${file}`)
    assert.equal(new Set(clauses.map(({ name }) => name)).size, clauses.length)
  }
})

test('a clause has one spelling', () => {
  const others = sources().flatMap(({ file, text }) =>
    [...text.matchAll(/\b(?:App|Cell), (?:[a-z]+ )?rules? \d+/gi)].map(([spelling]) => `${file}: ${spelling}`),
  )
  assert.deepEqual(others, [])
})

function named() {
  const found = sources().flatMap(({ file, text }) =>
    [...text.matchAll(/\b(App|Cell),? "([^"\n]{1,60})"(?: (\d+)\b)?/g)].map(([, surface, name = '', rule]) => ({
      file,
      surface: surface as keyof typeof CLAUSES,
      name,
      rule: Number(rule ?? 0),
    })),
  )
  assert.ok(found.length > 100, `${found.length} were found`)
  return found
}

/** Each wrapped comment is joined into one line. */
function sources() {
  return sourceFiles('contract', 'service', 'machine', 'tests')
    .filter((file) => /\.(ts|go)$/.test(file) && !file.startsWith('tests/tidy/'))
    .map((file) => ({ file, text: textOf(file).replaceAll(/\n\s*(?:\*|\/\/)\s/g, ' ') }))
}
