import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { downloadFolder } from '../../cli/src/download-folder.ts'
import { fetchFile } from '../../cli/src/fetch-file.ts'
import { httpFetch } from '../../cli/src/http-fetch.ts'
import { localListing, unchangedRemotely } from '../../cli/src/sync-listing.ts'
import { untilSignal } from '../../cli/src/until-signal.ts'
import type { Workspace } from '../../sdk/typescript/src/main.ts'

let folder: string
before(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'berth-interrupted-'))
})
after(() => rmSync(folder, { recursive: true }))

const nobody = { add: () => undefined, end: () => undefined }
const made = (name: string) => {
  const at = path.join(folder, name)
  mkdirSync(at)
  return at
}
const workspace = (files: object, more: object = {}) => ({ files, ...more }) as unknown as Workspace
const ended = { message: 'Ended by SIGINT', exit_code: 130 }
const interrupt = () => void process.emit('SIGINT', 'SIGINT')

test('an interrupted download of a folder leaves nothing', async () => {
  const from = made('from')
  writeFileSync(path.join(from, 'file'), 'content')
  const tar = execFileSync('tar', ['-C', from, '-cf', '-', '.'])
  const server = createServer((_request, response) => {
    response.writeHead(200)
    response.write(tar.subarray(0, -1024))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const readTar = async (_there: string, { signal }: { signal: AbortSignal }) => (await httpFetch(url, { signal })).body
  const here = made('here')
  const seen: string[] = []
  const progress = {
    ...nobody,
    add: () => {
      if (seen.length === 0) seen.push(...readdirSync(here))
      interrupt()
    },
  }
  await assert.rejects(
    downloadFolder(workspace({ readTar }), '/srv', here, () => progress),
    ended,
  )
  assert.match(seen.join(), /^\.berth-part-[^,]+$/)
  assert.deepEqual(readdirSync(here), [])
  server.closeAllConnections()
  server.close()
})

test('an interrupted download of a file leaves nothing', async () => {
  const here = made('of-file')
  const stream = async function* (_there: string, { signal }: { signal: AbortSignal }) {
    yield Buffer.from('half')
    if (!signal.aborted) await once(signal, 'abort')
    throw new TypeError('it broke off')
  }
  const file = { there: '/srv/file', here: path.join(here, 'file'), mode: null }
  const fetched = untilSignal((signal) => fetchFile(workspace({ stream }), file, { ...nobody, add: interrupt }, signal))
  await assert.rejects(fetched, ended)
  assert.deepEqual([readdirSync(here), process.listenerCount('SIGINT')], [[], 0])
})

test('an upload skips the leftovers of a killed download', async () => {
  const here = made('left')
  for (const name of ['.berth-part-12-0123abcd', 'below']) mkdirSync(path.join(here, name))
  for (const name of ['.berth-part-12-0123abcd/file', 'below/.berth-part-3-00000000', 'below/.berth-part-is-mine'])
    writeFileSync(path.join(here, name), 'x')
  assert.deepEqual([...(await localListing(here)).keys()].toSorted(), ['below', 'below/.berth-part-is-mine'])
})

test('only requested local files are opened, whatever a workspace lists', async () => {
  const here = made('asked')
  for (const at of ['asked/file', 'asked/other', 'outside']) writeFileSync(path.join(folder, at), 'content')
  symlinkSync('/dev/zero', path.join(here, 'link'))
  const digest = createHash('sha256').update('content').digest('hex')
  const says = (text: string) => workspace({}, { exec: () => Promise.resolve({ stdoutBytes: Buffer.from(text) }) })
  const listing = await localListing(here)
  const digests = ['../outside', '../nothing', '../../dev/zero', 'link', 'file', 'other'].map((at) => `${digest}  ./${at}\0`).join('')
  const mode = (listing.get('file')?.mode ?? 0).toString(8)
  for (const modes of ['', '0644\0./../outside\0', '0644\0./../nothing\0', '777\0./link\0'])
    assert.deepEqual(
      [...(await unchangedRemotely(says(`${modes}${mode}\0./file\0${digests}`), '/srv', here, listing, ['file']))],
      ['file'],
      modes,
    )
})
