import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { openCredentialBook, type ReadCredentials } from './credentials.ts'
import type { FoundCredential } from './store.ts'

const digest = (text: string) => createHash('sha256').update(text).digest()
const found = (id: string, port_id = 'port'): FoundCredential => ({
  id,
  kind: 'token',
  port_id,
  port: 3000,
  workspace_id: 'workspace',
  organization_id: 'organization',
  project_id: 'project',
  path: null,
  expires_at: null,
})

/** A book over rows that a test changes, with what it was asked for, and how it hears that a port has changed. */
function bookOf(rows: Map<string, FoundCredential>, known_max?: number) {
  const reads: number[] = []
  let heard: (id: string | null) => void = () => undefined
  let during: () => void = () => undefined
  const read: ReadCredentials = async (digests) => {
    reads.push(digests.length)
    const all = [...rows].map(([text, row]) => ({ ...row, sha256: digest(text) }))
    await new Promise((resolve) => setImmediate(resolve))
    during()
    return all.filter(({ sha256 }) => digests.some((each) => each.equals(sha256)))
  }
  const listener = { on: (_channel: string, hear: (id: string | null) => void) => ((heard = hear), () => undefined) }
  const book = openCredentialBook(read, listener, known_max)
  return {
    book,
    reads,
    change: (id: string | null) => heard(id),
    onceDuring: (work: () => void) => (during = () => ((during = () => undefined), work())),
  }
}

test('whoever tries a thousand values at once costs two queries, and a value that is none is asked for each time', async () => {
  const { book, reads } = bookOf(new Map([['good', found('one')]]))
  const answers = await Promise.all([...Array.from({ length: 999 }, (_, n) => `bad ${n}`), 'good'].map((text) => book.find(digest(text))))
  assert.deepEqual(
    answers.filter((one) => one !== null),
    [found('one')],
  )
  assert.ok(reads.length <= 2, reads.join())
  const asked = reads.length
  await book.find(digest('good'))
  assert.equal(reads.length, asked)
  await book.find(digest('bad 1'))
  assert.equal(reads.length, asked + 1)
})

test('a credential that goes is not found once that was heard of, and those of other ports stay known', async () => {
  const rows = new Map([
    ['one', found('one')],
    ['other', found('other', 'other port')],
  ])
  const { book, reads, change } = bookOf(rows)
  await Promise.all([book.find(digest('one')), book.find(digest('other'))])
  rows.clear()
  change('port')
  assert.equal(await book.find(digest('one')), null)
  const asked = reads.length
  assert.equal((await book.find(digest('other')))?.id, 'other')
  assert.equal(reads.length, asked)
  change(null)
  assert.equal(await book.find(digest('other')), null)
})

test('what was read while something changed is read again', async () => {
  const rows = new Map([['one', found('one')]])
  const { book, reads, change, onceDuring } = bookOf(rows)
  onceDuring(() => {
    rows.clear()
    change('port')
  })
  assert.equal(await book.find(digest('one')), null)
  assert.equal(reads.length, 2)
})

test('it keeps so many, those that were used last', async () => {
  const { book, reads } = bookOf(
    new Map([
      ['a', found('a')],
      ['b', found('b')],
      ['c', found('c')],
    ]),
    2,
  )
  for (const text of ['a', 'b', 'a', 'c']) await book.find(digest(text))
  assert.equal(reads.length, 3)
  await book.find(digest('a'))
  assert.equal(reads.length, 3)
  await book.find(digest('b'))
  assert.equal(reads.length, 4)
})

test('an error of the database is told to all who wait, and the next ask is made anew', async () => {
  let broken = true
  const read: ReadCredentials = () => (broken ? Promise.reject(new Error('away')) : Promise.resolve([]))
  const book = openCredentialBook(read, { on: () => () => undefined })
  await assert.rejects(book.find(digest('a')), /away/)
  broken = false
  assert.equal(await book.find(digest('a')), null)
})
