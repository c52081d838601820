import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sourceFiles, textOf } from './sources.ts'
import { bannedIn, commentsOf } from './words.ts'

/** Changing a byte of machine/runsc would change the engine's digest. */
const HELD = /^(service|contract|sdk|cli|tools|machine\/(?!runsc\/)|examples)/
/** Omitted, because its comments are the contract's descriptions. */
const GENERATED = 'sdk/typescript/src/schemas.ts'
/** The system's user `nobody` is no vague actor. */
const USER_NOBODY = /0: nobody$|^\/\/ nobody is the uid/

test('comments name their actors, and use the words of the field', () => {
  const files = sourceFiles().filter((file) => HELD.test(file) && file !== GENERATED && /\.(ts|mjs|go)$/.test(file))
  const wrong = files.flatMap((file) =>
    commentsOf(textOf(file))
      .filter(({ text }) => !USER_NOBODY.test(text))
      .flatMap(({ line, text }) => bannedIn(text).map((why) => `${file}:${line}: ${why}`)),
  )
  assert.deepEqual(wrong, [])
})

test('comments are found in whole lines, in blocks and after code, and never in strings', () => {
  const source = ['// one', "const url = 'http://host' // two", '/**', ' * three', ' */', 'const text = "// none"'].join('\n')
  assert.deepEqual(
    commentsOf(source).map(({ line, text }) => `${line} ${text}`),
    ['1 // one', '2 // two', '3 /**', '4 * three', '5 */'],
  )
})

test('a banned word is reported with its replacement, unless it names code', () => {
  assert.deepEqual(bannedIn('Whoever leaves cancels nothing'), ['"Whoever": name the actor: caller, operation, process, tenant, guest'])
  assert.deepEqual(bannedIn('It runs as `nobody`'), [])
})
