import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const root = path.resolve(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(path.join(root, file), 'utf8')
const rows = [...read('docs/operating/bounds.md').matchAll(/^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|(?: ([^|]+) \|)?$/gm)]
  .map(([, ...cells]) => cells.map((cell: string | undefined) => cell?.trim() ?? ''))
  .filter(([name]) => name !== 'Bound' && name !== 'Process')
const code = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, word = '']) => word)

test('the table of bounds has the values of the code', () => {
  const wrong: string[] = []
  for (const [name = '', value = ''] of rows.filter(([, text = '']) => / in `[^`]+`$/.test(text))) {
    const words = code(value)
    const file = words.pop() ?? ''
    for (const word of words) if (!read(file).includes(word)) wrong.push(`${name}: ${file} does not say ${word}`)
  }
  assert.ok(rows.length > 30, `${rows.length} rows`)
  assert.deepEqual(wrong, [])
})

test('each bound names its owner and the effect when it is used up', () => {
  const bounds = rows.filter(([, value = '']) => value.startsWith('`'))
  assert.ok(bounds.length > 25, `${bounds.length} bounds`)
  assert.deepEqual(
    bounds.filter(([, , share = '', at = '']) => share === '' || at === ''),
    [],
  )
})

test('a test multiplies the bounds of each process that has a limit', () => {
  const tests = rows.flatMap(([, , by = '', last = '']) => (last === '' ? code(by) : [])).filter((word) => word.startsWith('Test'))
  assert.ok(tests.length >= 5)
  const declared = execFileSync('git', ['-c', 'safe.directory=*', 'grep', '-h', '^func Test', '--', 'machine'], {
    cwd: root,
    encoding: 'utf8',
  })
  assert.deepEqual(
    tests.filter((name) => !declared.includes(`func ${name}(`)),
    [],
  )
})
