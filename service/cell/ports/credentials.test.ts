import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { openCredentialCache, type ReadCredentials } from './credentials.ts'
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
  const book = openCredentialCache(read, listener, known_max)
  return {
    book,
    reads,
    change: (id: string | null) => heard(id),
    onceDuring: (work: () => void) => (during = () => ((during = () => undefined), work())),
  }
}

test('a thousand simultaneous values cost two queries, and an invalid value is read each time', async () => {
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

test('a removed credential is not found after its announcement, and those of other ports stay cached', async () => {
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

test('a read that overlaps a change is repeated', async () => {
  const rows = new Map([['one', found('one')]])
  const { book, reads, change, onceDuring } = bookOf(rows)
  onceDuring(() => {
    rows.clear()
    change('port')
  })
  assert.equal(await book.find(digest('one')), null)
  assert.equal(reads.length, 2)
})

test('the cache keeps the most recently used credentials', async () => {
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

test('a database error reaches all waiting callers, and the next call reads again', async () => {
  let broken = true
  const read: ReadCredentials = () => (broken ? Promise.reject(new Error('away')) : Promise.resolve([]))
  const book = openCredentialCache(read, { on: () => () => undefined })
  await assert.rejects(book.find(digest('a')), /away/)
  broken = false
  assert.equal(await book.find(digest('a')), null)
})
