import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lockOf, migrationFile, type MigrationLock, problemsOf, readLock, readMigrationFiles, statementsOf } from './migration-files.ts'

const ONE = migrationFile('0001_one.sql', 'create table one (id integer);')
const THREE = migrationFile('0003_three.sql', 'create table three (id integer);')
const LOCK: MigrationLock = {
  files: { '0001_one': ONE.sha256, '0003_three': THREE.sha256 },
  gaps: { '0002': 'was given up' },
  releases: { '1.0.0': '0001_one' },
}

test('the migrations match migrations.lock.json', async () => {
  assert.deepEqual(problemsOf(await readMigrationFiles(), await readLock()), [])
})

test('problems of files are reported with a remedy: changed, missing, duplicate number, or gap', () => {
  const changed = (file: typeof ONE) => migrationFile(`${file.name}.sql`, `${file.text} -- more`)
  const other = migrationFile('0003_other.sql', '')
  const between = migrationFile('0002_between.sql', '')
  const cases: [files: (typeof ONE)[], problems: string[]][] = [
    [[ONE, THREE], []],
    [[changed(ONE), THREE], ['0001_one is released and has changed: put it back, and write a new migration']],
    [[ONE, changed(THREE)], ['0003_three is not as migrations.lock.json has it: run `npm run schema`']],
    [[THREE], ['0001_one has no file: it is released, put it back', '0001 has no file: say why in migrations.lock.json under "gaps"']],
    [[ONE], ['0003_three has no file: run `npm run schema`']],
    [
      [ONE, THREE, other],
      ['0003_other is not as migrations.lock.json has it: run `npm run schema`', '0003_other has a number that is taken'],
    ],
    [
      [ONE, between, THREE],
      [
        '0002_between is not as migrations.lock.json has it: run `npm run schema`',
        '0002 has a file and stands under "gaps": run `npm run schema`',
      ],
    ],
  ]
  for (const [files, problems] of cases) assert.deepEqual(problemsOf(files, LOCK), problems)
})

test('a new lock accepts new and unreleased changed files, and refuses changes of released ones', () => {
  const four = migrationFile('0004_four.sql', '')
  const changed = migrationFile('0003_three.sql', '')
  const files = { '0001_one': ONE.sha256, '0003_three': changed.sha256, '0004_four': four.sha256 }
  assert.deepEqual(lockOf([ONE, changed, four], LOCK), { ...LOCK, files })
  const all = { ...LOCK, releases: { '1.0.0': '0003_three' } }
  assert.throws(() => lockOf([ONE, changed], all), { message: /^0003_three is released and has changed/ })
  assert.throws(() => lockOf([ONE, migrationFile('0002_late.sql', ''), THREE], all), {
    message: /^0002_late comes before a migration that is released/,
  })
  assert.throws(() => lockOf([THREE], all), { message: /^0001_one has no file: it is released/ })
})

test('a new lock drops a filled gap', () => {
  const between = migrationFile('0002_between.sql', '')
  const young = { ...LOCK, releases: {} }
  assert.deepEqual(lockOf([ONE, between, THREE], young).gaps, {})
})

test('markers are read, and an unknown one is refused', () => {
  const { outside, needs } = migrationFile('0005_a.sql', '-- migrate: needs 0004\nselect 1;')
  assert.deepEqual({ outside, needs }, { outside: false, needs: 4 })
  assert.throws(() => migrationFile('0005_a.sql', '-- migrate: soon\n'), { message: /is neither "needs NNNN" nor "outside a transaction"/ })
  assert.throws(() => migrationFile('5.sql', ''), { message: '5.sql is not the name of a migration: NNNN_words.sql' })
})

test('outside a transaction only repeatable statements are accepted', () => {
  const text =
    '-- migrate: outside a transaction\n-- Why; because.\ncreate index concurrently if not exists a on b (c,\n  d);\ndrop index concurrently if exists e;\n'
  const statements = ['create index concurrently if not exists a on b (c,\n  d);', 'drop index concurrently if exists e;']
  assert.deepEqual(statementsOf(migrationFile('0005_a.sql', text)), statements)
  for (const statement of ['create index concurrently a on b (c);', 'alter table a add column b integer;', 'update a set b = 1;']) {
    const once = `-- migrate: outside a transaction\n${statement}\n`
    assert.throws(() => migrationFile('0005_a.sql', once), { message: /may run twice/ })
  }
})
