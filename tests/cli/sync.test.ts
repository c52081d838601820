import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { lineOf } from '../../cli/src/progress.ts'
import { addDigests, localListing } from '../../cli/src/sync-listing.ts'
import { checkedListing, type Entry, planOf, without } from '../../cli/src/sync-plan.ts'
import { type Served, serveDouble } from './served.ts'

let cli: Served
before(async () => {
  cli = await serveDouble()
  await cli.double.berth.open('w', { template: 'base' })
})
after(() => cli[Symbol.asyncDispose]())

const file = (bytes: number, sha256?: string, mode = 0o644): Entry => ({ type: 'file', mode, bytes, ...(sha256 ? { sha256 } : {}) })
const FOLDER: Entry = { type: 'directory', mode: 0o755, bytes: 0 }
const SOCKET: Entry = { ...FOLDER, type: 'other' }
const link = (target: string): Entry => ({ type: 'symlink', mode: 0o777, bytes: 0, target })

test('changed files are copied, equal ones are not, and extra files of the target stay or go as requested', () => {
  const from = new Map([
    ['a', FOLDER],
    ['a/same', file(3, 'one')],
    ['a/longer', file(9)],
    ['a/other', file(3, 'two')],
    ['a/mode', file(3, 'one', 0o755)],
    ['link', link('a')],
    ['new', FOLDER],
    ['new/file', file(5)],
    ['socket', SOCKET],
  ])
  const to = new Map([
    ['a', FOLDER],
    ['a/same', file(3, 'one')],
    ['a/longer', file(4)],
    ['a/other', file(3, 'three')],
    ['a/mode', file(3, 'one')],
    ['link', link('b')],
    ['old', FOLDER],
    ['old/below', file(1)],
  ])
  const made = ['a/longer', 'a/mode', 'a/other', 'link', 'new', 'new/file']
  const plan = { replaced: [], made, gone: [], unchanged: 2, left_out: ['socket'], bytes: 9 + 3 + 3 + 5 }
  assert.deepEqual(planOf(from, to, { is_deleting: false }), plan)
  assert.deepEqual(planOf(from, to, { is_deleting: true }), { ...plan, gone: ['old'] })
})

test('a folder in the way of a file is deleted only when deletion is requested', () => {
  const [from, to] = [new Map([['x', file(1)]]), new Map([['x', FOLDER], ['x/below', file(1)]])] // prettier-ignore
  assert.throws(() => planOf(from, to, { is_deleting: false }), /x is a folder in the target/)
  const { replaced, gone, made } = planOf(from, to, { is_deleting: true })
  assert.deepEqual([replaced, made, gone], [['x'], ['x'], []])
})

test('excluded names and paths are left out on both sides, with everything below them', () => {
  const listing = new Map([['node_modules', FOLDER], ['node_modules/x', FOLDER], ['a', FOLDER], ['a/node_modules', FOLDER], ['a/b', file(1)], ['b', file(1)]]) // prettier-ignore
  assert.deepEqual([...without(listing, ['node_modules/', 'a/b']).keys()], ['a', 'b'])
})

for (const hostile of ['../evil', '/etc/passwd', 'a/../../evil', 'link/evil', 'nowhere/evil', '', '.', 'file/evil'])
  test(`a workspace that lists ${JSON.stringify(hostile)} is believed nothing`, () => {
    const honest: [string, Entry][] = [['link', link('/tmp')], ['file', file(1)]] // prettier-ignore
    assert.equal(checkedListing(honest).size, 2)
    assert.throws(() => checkedListing([...honest, [hostile, file(1)]]), /lists a path that is none of the folder/)
  })

test("a workspace's listing may have odd names, and a hostile one writes nothing outside of the folder", async () => {
  const ws = await cli.double.berth.find('w')
  const odd = 'two\nlines'
  await ws?.files.write(`/srv/${odd}`, 'content')
  const entry = (type: string, name: string) => [type, '4755', '7', '', name, ''].join('\0')
  const folder = path.join(cli.folder, 'pulled')
  cli.double.programs['sh'] = ({ stdout }) => void stdout(`${entry('f', odd)}\0`)
  const { code, stderr } = await cli.berth(['sync', 'w:/srv', folder])
  assert.deepEqual([code, stderr, readdirSync(folder)], [0, '1 carried (7 B), 0 deleted, 0 as before\n', [odd]])
  assert.equal(readFileSync(path.join(folder, odd), 'utf8'), 'content')
  cli.double.programs['sh'] = ({ stdout }) => void stdout(`${entry('f', '../evil')}\0`)
  const refused = await cli.berth(['sync', 'w:/srv', folder])
  assert.deepEqual([refused.code, readdirSync(cli.folder).includes('evil')], [1, false])
})

test('local files are compared by content, not by time', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-sync-'))
  mkdirSync(path.join(folder, 'below'))
  writeFileSync(path.join(folder, 'below/file'), 'abc')
  symlinkSync('file', path.join(folder, 'below/link'))
  utimesSync(path.join(folder, 'below/file'), 1, 1)
  const here = await localListing(folder)
  await addDigests(folder, here, new Map([['below/file', file(3)]]))
  const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
  assert.deepEqual([here.get('below/file')?.sha256, here.get('below/link')?.target], [abc, 'file'])
  rmSync(folder, { recursive: true })
})

test('exactly one side is in a workspace, and the local side is a folder', async () => {
  assert.match((await cli.berth(['sync', 'a', 'b'])).stderr, /One of both is in a workspace/)
  assert.match((await cli.berth(['sync', path.join(cli.folder, 'missing'), 'w:/srv'])).stderr, /missing is no folder/)
})

test('progress is a bar if the size is known, fits the terminal, and contains no control characters', () => {
  const seen = { what: 'a\u001b[2Jb', done: 6 << 20, total: 12 << 20, seconds: 2, columns: 80 }
  assert.equal(lineOf(seen), '[############            ] 50 %  6.0 MiB  3.0 MiB/s  a\\x1b[2Jb')
  assert.equal(lineOf({ ...seen, total: null, seconds: 0 }), '6.0 MiB  a\\x1b[2Jb')
  assert.equal(lineOf({ ...seen, columns: 20 }).length, 19)
  assert.match(lineOf({ ...seen, done: 0, total: 0 }), /100 %/)
})
