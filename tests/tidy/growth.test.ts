import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { GROWTH } from './growth.ts'

const root = path.join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(path.join(root, file), 'utf8')
const entries = Object.entries(GROWTH)

test('every table of the schema names what removes its rows, or why they stay', () => {
  const tables = [...read('service/db/schema.sql').matchAll(/^create table (\w+) \(/gm)].map(([, name]) => name)
  assert.deepEqual(Object.keys(GROWTH).toSorted(), tables.toSorted())
})

test('the function that removes rows of a table exists, and names the table', () => {
  const wrong = entries.flatMap(([table, growth]) => {
    if (!('by' in growth)) return []
    const [file = '', name = ''] = growth.by.split(' ')
    const text = read(file)
    const begin = text.search(new RegExp(`function ${name}\\b`))
    if (begin === -1) return [`${table}: ${file} has no ${name}`]
    const body = text.slice(begin, text.indexOf('\n}\n', begin))
    const removes = /delete from|deleteFrom\(|deleteOld\(|delete\(\)/.test(body) && new RegExp(`\\b${table}\\b`).test(body)
    return removes ? [] : [`${table}: ${name} of ${file} deletes nothing of it`]
  })
  assert.deepEqual(wrong, [])
})

test("rows that go with another table's rows end at a table whose rows go", () => {
  const wrong = entries.flatMap(([table, growth]) => {
    let at = growth
    for (let steps = 0; 'with' in at && steps < entries.length; steps++) at = GROWTH[at.with]
    return 'with' in growth && !('by' in at) ? [table] : []
  })
  assert.deepEqual(wrong, [])
})
