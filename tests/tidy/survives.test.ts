import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { CASES, PROGRAM } from '../resume/cases.ts'

const GUIDE = path.resolve(import.meta.dirname, '../../docs/guides/what-survives.md')

test('docs/guides/what-survives.md has a row for each state that tests/resume/cases.py compares, and no other', () => {
  const rows = [...readFileSync(GUIDE, 'utf8').matchAll(/^\| (.+?) \| yes \| yes \| yes \| yes \|$/gm)].map(([, text]) => text)
  assert.ok(CASES.length > 15, `${CASES.length} cases were read`)
  assert.equal(CASES.length, PROGRAM.match(/^ {4}(slept = )?yield$/gm)?.length, 'a case has no docstring')
  assert.deepEqual(
    rows,
    CASES.map(({ text }) => text),
  )
})
