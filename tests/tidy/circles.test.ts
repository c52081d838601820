import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { sourceFiles, textOf } from './sources.ts'

const files = sourceFiles('*.ts', '*.mjs')

test('no files import each other in a circle, apart from types', () => {
  const imports = new Map(files.map((file) => [file, importsOf(file, textOf(file))]))
  assert.ok(imports.size > 500, `${imports.size} files were read`)
  assert.deepEqual(circle(imports), [])
})

test('a circle is found', () => {
  const imports = new Map([
    ['a.ts', ['b.ts']],
    ['b.ts', ['c.ts']],
    ['c.ts', ['b.ts']],
  ])
  assert.deepEqual(circle(imports), ['b.ts', 'c.ts', 'b.ts'])
})

test('an import of types alone is not counted', () => {
  const text = "import type { A } from './a.ts'\nimport { b, type B } from '../b.ts'\nexport { c } from './c.ts'\n"
  assert.deepEqual(importsOf('x/y.ts', text), ['b.ts', 'x/c.ts'])
})

function importsOf(file: string, text: string): string[] {
  return [...text.matchAll(/^(?:import|export) (?!type )(?:[^'"]*? from )?'(\.[^']+)'/gm)].map(([, to = '']) =>
    path.normalize(path.join(path.dirname(file), to)),
  )
}

function circle(imports: ReadonlyMap<string, string[]>): string[] {
  const done = new Set<string>()
  const way: string[] = []
  const walk = (file: string): string[] => {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file]
    if (done.has(file)) return []
    way.push(file)
    for (const next of imports.get(file) ?? []) {
      const found = walk(next)
      if (found.length > 0) return found
    }
    way.pop()
    done.add(file)
    return []
  }
  for (const file of imports.keys()) {
    const found = walk(file)
    if (found.length > 0) return found
  }
  return []
}
