import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseIndex } from './parse-index.ts'

async function* lines(text: string) {
  for (const line of text.split('\n')) yield await Promise.resolve(line)
}

test('an index is parsed by fields, and incomplete entries are skipped', async () => {
  const text = [
    'Package: git',
    'Version: 1:2.39.5',
    'Installed-Size: 2',
    'Description: fast version control',
    ' and a line that goes on: Package: x',
    '',
    'Package: half',
    '',
    '',
    'Package: git',
    'Version: 0',
    '',
    'Package: zlib',
    'Version: 1',
    'Installed-Size: nonsense',
  ].join('\n')
  assert.deepEqual(
    [...(await parseIndex(lines(text))).values()],
    [
      { name: 'git', version: '1:2.39.5', description: 'fast version control', installed_bytes: 2048 },
      { name: 'zlib', version: '1', description: '', installed_bytes: 0 },
    ],
  )
})
