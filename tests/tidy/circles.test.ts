import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const root = path.resolve(import.meta.dirname, '../..')
const listed = ['-c', 'safe.directory=*', 'ls-files', '--cached', '--others', '--exclude-standard', '*.ts', '*.mjs']
const files = execFileSync('git', listed, { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((file) => file !== '' && existsSync(path.join(root, file)))

test('no files import each other in a circle, apart from types', () => {
  const imports = new Map(files.map((file) => [file, importsOf(file, readFileSync(path.join(root, file), 'utf8'))]))
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

/** Returns the first circle of imports, from a file back to itself, or an empty list. */
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
