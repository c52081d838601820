import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { freshDatabase } from '../../../../tests/support/postgres.ts'
import { systemClock } from '../../../lib/clock.ts'
import { HostFailure } from '../../host/hostd.ts'
import type { LayerList } from '../../host/hostd-layers.ts'
import { listWanted } from './listing.ts'
import { dropUnusedLists } from './store.ts'

const LAYER = 'c'.repeat(64)
const directory = (path: string) => ({ path, entries: [{ name: 'f', type: 'file' as const, size_bytes: 1, mode: 0o644, uid: 0, gid: 0 }] })
const PIECES: Record<string, LayerList> = {
  '': { directories: [directory('/'), directory('/a')], done: false },
  '/a': { directories: [directory('/b')], done: false },
  '/b': { directories: [directory('/c')], done: true },
}

async function bench(answers: (after: string) => LayerList) {
  const database = await freshDatabase()
  const db = database.superuser
  await db.insertInto('layer_lists').values({ layer: LAYER, state: 'wanted', reached: null, updated_at: new Date() }).execute()
  const asked: string[] = []
  const host = {
    listLayer(_layer: string, after: string) {
      asked.push(after)
      return Promise.resolve().then(() => answers(after))
    },
  }
  const context = { db: database.cell, clock: systemClock, log: pino({ level: 'silent' }), host }
  const kept = async () => {
    const [list] = await db.selectFrom('layer_lists').select(['state', 'reached']).execute()
    const rows = await db.selectFrom('layer_directories').select('layer').execute()
    return [list?.state, list?.reached, rows.length]
  }
  const look = () => listWanted(context, new AbortController().signal)
  return { database, db, asked, look, kept, [Symbol.asyncDispose]: () => database[Symbol.asyncDispose]() }
}

test('an interrupted list continues after its last piece, and written pieces are not asked for again', async () => {
  let answers = 1
  await using b = await bench((after) => {
    if ((answers -= 1) < 0) throw new HostFailure('unreachable', 'The machine host does not answer', { retryable: true })
    return PIECES[after] as LayerList
  })
  await assert.rejects(b.look(), /does not answer/)
  assert.deepEqual(await b.kept(), ['wanted', '/a', 2])
  answers = 10
  await b.look()
  assert.deepEqual(
    [await b.kept(), b.asked],
    [
      ['ready', '/c', 4],
      ['', '/a', '/a', '/b'],
    ],
  )
})

test('a piece that two processes write exists once', async () => {
  await using b = await bench((after) => PIECES[after] as LayerList)
  await Promise.all([b.look(), b.look()])
  assert.deepEqual(await b.kept(), ['ready', '/c', 4])
})

test('a layer that the host refuses to list is unavailable, and blocks no other', async () => {
  await using b = await bench(() => {
    throw new HostFailure('layer_refused', 'It is too large', { retryable: false, details: { why: 'too_many_entries' } })
  })
  await b.look()
  assert.deepEqual(await b.kept(), ['unavailable', null, 0])
})

test('a list of a layer that no version has goes with its directories', async () => {
  await using b = await bench((after) => PIECES[after] as LayerList)
  await b.look()
  await dropUnusedLists(b.database.cell, new Date(0))
  assert.deepEqual(await b.kept(), ['ready', '/c', 4])
  await dropUnusedLists(b.database.cell, new Date(Date.now() + 1000))
  assert.deepEqual(await b.kept(), [undefined, undefined, 0])
})
