import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { sourceFiles, textOf } from './sources.ts'

/** Rooms from top to bottom. A file may import only its own room and rooms to the right, types included. */
const ORDERS: Readonly<Record<string, readonly string[]>> = {
  'service/api/': ['', 'site', 'lifecycle', 'templates', 'money', 'workspaces', 'records', 'access', 'calls'],
  'service/cell/': [
    '',
    'reconcile',
    'operations',
    'filetree',
    'ports',
    'gateway',
    'admission',
    'policies',
    'machines',
    'capacity',
    'metering',
    'host',
  ],
  'service/core/': ['money', 'templates', 'workspaces', 'people', 'secrets', 'keys', 'revocations', 'installation', 'changes'],
}

for (const [base, order] of Object.entries(ORDERS)) {
  test(`rooms of ${base} import only rooms below them`, () => {
    const files = sourceFiles('*.ts').filter((file) => file.startsWith(base) && !file.endsWith('.test.ts'))
    assert.ok(files.length > 50, `${files.length} files were read`)
    assert.deepEqual(
      files.flatMap((file) => climbing(base, order, file, textOf(file))),
      [],
    )
  })
}

test('an import of a higher room is found, a type too', () => {
  const order = ['', 'high', 'low']
  const text = "import type { A } from '../high/a.ts'\nimport { b } from './b.ts'\nexport { c } from '../app.ts'\n"
  assert.deepEqual(climbing('x/', order, 'x/low/c.ts', text), ['x/low/c.ts imports x/high/a.ts', 'x/low/c.ts imports x/app.ts'])
  assert.deepEqual(climbing('x/', order, 'x/high/c.ts', "import { l } from '../low/l.ts'\n"), [])
})

test('a folder without a place in the order is found', () => {
  assert.throws(() => climbing('x/', ['', 'low'], 'x/new/c.ts', "import { l } from '../low/l.ts'\n"), /x\/new\/ has no place/)
})

function climbing(base: string, order: readonly string[], file: string, text: string): string[] {
  const heightOf = (of: string) => {
    const [room = '', ...rest] = of.slice(base.length).split('/')
    const height = order.indexOf(rest.length === 0 ? '' : room)
    if (height < 0) throw new Error(`${base}${room}/ has no place in the order of rooms`)
    return height
  }
  const targets = [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+)'/g)].map(([, target = '']) =>
    path.normalize(path.join(path.dirname(file), target)),
  )
  return targets
    .filter((target) => target.startsWith(base) && heightOf(target) < heightOf(file))
    .map((target) => `${file} imports ${target}`)
}
