import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toothlessTests } from './assertions.ts'
import { sourceFiles, textOf } from './sources.ts'

const ALLOWED: { file: string; title: string; because: string }[] = []

const found = (text: string, ...others: { file: string; text: string }[]) =>
  toothlessTests([{ file: 'tests/a.test.ts', text }, ...others]).map(({ title }) => title)

test('every test asserts something', () => {
  const files = sourceFiles().filter((file) => /^tests\/.*\.ts$|\.test\.(ts|mjs)$|^tools\/checks\/.*\.mjs$/.test(file))
  const sources = files.map((file) => ({ file, text: textOf(file) }))
  const wrong = toothlessTests(sources)
    .filter(({ file, title }) => !ALLOWED.some((each) => each.file === file && each.title === title))
    .map(({ file, line, title }) => `${file}:${line}: ${title} reaches no assertion: say what must hold`)
  assert.deepEqual(wrong, [])
})

test('a test that calls functions without asserting is found', () => {
  assert.deepEqual(found(`test('calls', () => work())\ntest('asserts', () => assert.ok(work()))`), ["'calls'"])
})

test('an assertion in a called function counts, at any depth and in other files', () => {
  const helpers = {
    file: 'tests/support/helpers.ts',
    text: `export const holds = () => inner()\nfunction inner() { throw new Error('no') }`,
  }
  assert.deepEqual(found(`import { holds as stands } from './support/helpers.ts'\ntest('one', () => stands())`, helpers), [])
  assert.deepEqual(found(`function judge() { assert.ok(1) }\ntest('by name', judge)\ntest('called', async () => await judge())`), [])
})

test('a function of the same name in a file that is not imported does not count', () => {
  const helpers = { file: 'tests/support/helpers.ts', text: `export function close() { assert.ok(1) }` }
  assert.deepEqual(found(`test('closes', () => service.close())`, helpers), ["'closes'"])
})

test('functions that call each other in a circle end the search', () => {
  assert.deepEqual(found(`function a() { b() }\nfunction b() { a() }\ntest('circle', () => a())`), ["'circle'"])
})

test('the `test` method of a regular expression is not one of our tests', () => {
  assert.deepEqual(found(`const fits = /x/.test(text)`), [])
})
