import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const ROOT = path.resolve(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')

test('docs/guides/what-survives.md has a row for each state that tests/resume/cases.py compares, and no other', () => {
  const cases = [...read('tests/resume/cases.py').matchAll(/^def \w+\(\):\n {4}"""(.+)\."""\n/gm)].map(([, text]) => text)
  const rows = [...read('docs/guides/what-survives.md').matchAll(/^\| (.+?) \| yes \| yes \| yes \| yes \|$/gm)].map(([, text]) => text)
  assert.ok(cases.length > 15, `${cases.length} cases were read`)
  assert.deepEqual(rows, cases)
})
