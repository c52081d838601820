import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { keyService } from '../../../../tests/support/key-service.ts'
import { openerOf, sealerFor } from './sealed-values.ts'
import { sealingFolder } from './sealing-folder.ts'
import { commandKeyWrapper } from './wrapping.ts'

let scratch: string
let program: string
before(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'sealing-folder-'))
  program = await keyService(scratch)
})
after(() => rm(scratch, { recursive: true }))

const ROW = { purpose: 'data_key', row: 'secret_versions/1' }
const script = async (text: string) => {
  const path = join(scratch, `program-${Math.random()}`)
  await writeFile(path, `#!/bin/sh\n${text}\n`, { mode: 0o700 })
  return path
}

test('a wrapped key opens its values, and its file does not contain the private key', async () => {
  const folder = sealingFolder(join(scratch, 'wrapped'), commandKeyWrapper(program))
  const made = await folder.make('first')
  const key = await made.open()
  const sealed = await (await sealerFor(key.public_jwk)).seal(ROW, Buffer.from('a data key'))
  const [found] = await folder.files()
  assert.deepEqual([found?.file, found?.key_id], ['first.wrapped.json', key.key_id])
  assert.equal(String(await openerOf([(await found?.open()) ?? key]).open(ROW, sealed)), 'a data key')
  assert.equal((await folder.make('first')).key_id, key.key_id)
  const text = await readFile(join(scratch, 'wrapped', 'first.wrapped.json'), 'utf8')
  assert.doesNotMatch(text + Buffer.from((JSON.parse(text) as { wrapped: string }).wrapped, 'base64').toString(), /"d"|crv/)
})

test('wrapped and plain key files share a folder, and listing them does not run the program', async () => {
  const directory = join(scratch, 'both')
  const plain = await sealingFolder(directory, null).make('plain')
  const wrapped = await sealingFolder(directory, commandKeyWrapper(program)).make('wrapped')
  const found = await sealingFolder(directory, null).files()
  assert.deepEqual(new Set(found.map(({ key_id }) => key_id)), new Set([plain.key_id, wrapped.key_id]))
  const [closed, open] = [found.find(({ key_id }) => key_id === wrapped.key_id), found.find(({ key_id }) => key_id === plain.key_id)]
  assert.equal((await open?.open())?.key_id, plain.key_id)
  await assert.rejects(async () => closed?.open(), /secret_keys_command/)
})

test('a swapped or changed key file is an error, and an invalid one does not affect the others', async () => {
  const directory = join(scratch, 'spoilt')
  const folder = (spoilt?: (name: string) => void) => sealingFolder(directory, commandKeyWrapper(program), spoilt)
  const [one, two] = [await folder().make('one'), await folder().make('two')]
  const read = async (file: string) => JSON.parse(await readFile(join(directory, file), 'utf8')) as { key_id: string; wrapped: string }
  const write = (file: string, value: object) => writeFile(join(directory, file), JSON.stringify(value))
  await write('swapped.wrapped.json', { ...(await read(one.file)), key_id: two.key_id })
  const { key_id, wrapped } = await read(two.file)
  await write(two.file, { key_id, wrapped: `${wrapped.startsWith('A') ? 'B' : 'A'}${wrapped.slice(1)}` })
  await write('none.wrapped.json', { key_id: 7 })
  await writeFile(join(directory, 'half.jwk.json'), '{')
  const told: string[] = []
  const found = await folder((name) => told.push(name)).files()
  assert.deepEqual(told.sort(), ['half.jwk.json', 'none.wrapped.json'])
  await assert.rejects(async () => found.find(({ file }) => file === 'swapped.wrapped.json')?.open(), /another key/)
  await assert.rejects(async () => found.find(({ file }) => file === two.file)?.open(), /unwrap: it ended with 1/)
  assert.equal((await found.find(({ file }) => file === one.file)?.open())?.key_id, one.key_id)
})

test('a program that fails, answers nothing, too much or too late creates no key and reports why', async () => {
  const directory = join(scratch, 'failing')
  const refused = (path: string, answer_ms = 20_000) => sealingFolder(directory, commandKeyWrapper(path, answer_ms)).make('key')
  await assert.rejects(refused(join(scratch, 'is-not-there')), /ENOENT/)
  await assert.rejects(refused(await script('echo no such alias >&2; exit 3')), /wrap: it ended with 3: no such alias/)
  await assert.rejects(refused(await script('cat >/dev/null')), /wrap: it answered nothing/)
  await assert.rejects(refused(await script('head -c 100000 /dev/zero')), /larger than 65536 bytes/)
  await assert.rejects(refused(await script('sleep 100 & sleep 100'), 300), /longer than 0.3 s/)
  await assert.rejects(refused(await script('echo the same for everything')), /unwrapped as something else/)
  assert.deepEqual(await readdir(directory), [])
})

test('the wrapping program gets no environment of the service', async () => {
  process.env['BERTH_CANARY'] = 'canary'
  const seen = await commandKeyWrapper(await script('env')).wrap(Buffer.alloc(0))
  assert.match(seen.toString(), /PATH=/)
  assert.doesNotMatch(seen.toString(), /canary|HOME/i)
})
