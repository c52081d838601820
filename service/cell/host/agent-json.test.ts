import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generatorOf, testSeed } from '../../../tests/support/seed.ts'
import { parseAnswer, RECORD_VALUES_MAX } from './agent-json.ts'

const repeated = (text: string, bytes: number) => Buffer.from(`[${`${text},`.repeat(bytes / (text.length + 1))}0]`)
const TOO_MANY = /too many values/

for (const [what, answer] of [
  ['of empty records', repeated('{}', 16 << 20)],
  ['of empty lists in lists', repeated('[[[]]]', 16 << 20)],
  ['of names', repeated('{"a":1}', 16 << 20)],
  ['that is one number', Buffer.from('1'.repeat(16 << 20))],
  ['of spaces', Buffer.from(' '.repeat(16 << 20))],
  ['that is deep', Buffer.from('['.repeat(100_000) + ']'.repeat(100_000))],
] as const) {
  test(`an answer ${what} is refused before it is parsed`, () => {
    assert.throws(() => parseAnswer(answer, 150_000), TOO_MANY)
  })
}

test('the maximum number of values is read, and one more is refused', () => {
  const list = (values: number) => Buffer.from(JSON.stringify(Array.from({ length: values }, () => 0)))
  assert.equal((parseAnswer(list(RECORD_VALUES_MAX)) as unknown[]).length, RECORD_VALUES_MAX)
  assert.throws(() => parseAnswer(list(RECORD_VALUES_MAX + 1)), TOO_MANY)
})

test('only values outside of strings count', () => {
  const random = generatorOf(testSeed())
  const alphabet = ['"', '\\', '[', '{', ',', 'a', '\u0001', 'é', '😀']
  for (let round = 0; round < 2000; round += 1) {
    const text = Array.from({ length: Math.floor(random() * 30) }, () => alphabet[Math.floor(random() * alphabet.length)]).join('')
    const value = [text, { [text]: text }, [text]]
    const bytes = Buffer.from(JSON.stringify(value))
    assert.deepEqual(parseAnswer(bytes, 5), value)
    assert.throws(() => parseAnswer(bytes, 4), TOO_MANY)
  }
})
