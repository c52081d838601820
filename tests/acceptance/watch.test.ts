import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { NO_PYTHON, runPython } from '../support/client-guides.ts'
import { type Client, createClient, ndjson, type OpenedWorkspace, send } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

interface Told {
  type: string
  offset?: number
  watch_id?: string
  missed?: boolean
  path?: string
  change?: string
}

class Watcher {
  at: { watch_id?: string; offset: number } = { offset: 0 }
  readonly told: Told[] = []
  missed = 0
  private readonly workspace: OpenedWorkspace
  private readonly query: string
  constructor(workspace: OpenedWorkspace, query: string) {
    this.workspace = workspace
    this.query = query
  }
  async read(enough: () => boolean): Promise<void> {
    const { watch_id, offset } = this.at
    const on = watch_id === undefined ? '' : `&watch_id=${watch_id}&offset=${offset}`
    const { endpoint, id, token } = this.workspace
    const stream = await send(`${endpoint}/v1/workspaces/${id}/files/watch?${this.query}${on}`, { token })
    assert.equal(stream.statusCode, 200)
    for await (const event of ndjson(stream)) {
      const told = event as unknown as Told
      if (told.offset !== undefined) this.at.offset = told.offset
      if (told.type === 'start') {
        this.at.watch_id = told.watch_id ?? ''
        if (told.missed) this.missed += 1
      } else if (told.type !== 'heartbeat') this.told.push(told)
      if (enough()) break
    }
    stream.destroy()
  }
  added(): string[] {
    return this.told.filter(({ change }) => change === 'added').map(({ path }) => path ?? '')
  }
}

const paths = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `/home/user/w/f${from + at}`)
const make = async (workspace: OpenedWorkspace, from: number, to: number) => {
  const { exit } = await client.run(workspace, ['bash', '-c', `for i in $(seq ${from} ${to - 1}); do echo $i > w/f$i; done`])
  assert.equal(exit.exit_code, 0)
}

test('a hundred changes are each reported once over a cut connection, a suspend and a resume', { timeout: patience(240_000) }, async () => {
  const workspace = await client.open('watched')
  await client.run(workspace, ['mkdir', 'w'])
  const watcher = new Watcher(workspace, 'path=/home/user/w')
  await watcher.read(() => watcher.at.watch_id !== undefined)
  await make(workspace, 0, 50)
  await watcher.read(() => watcher.added().length === 20)
  await make(workspace, 50, 80) // without a reader
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  await client.operate(`/v1/workspaces/${workspace.id}/resume`)
  workspace.token = await client.token(workspace.id)
  await make(workspace, 80, 100)
  await watcher.read(() => watcher.added().length === 100)
  assert.deepEqual(watcher.added(), paths(0, 100))
  assert.equal(watcher.missed, 0)
  await client.run(workspace, ['rm', '-r', 'w'])
  await watcher.read(() => false)
  assert.deepEqual(
    [watcher.told.filter(({ change }) => change === 'deleted').length, watcher.told.at(-1)?.type, watcher.missed],
    [100, 'end', 0],
  )
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

test(
  'a watch continues in a fork from the same offsets, and neither workspace gets changes of the other',
  { timeout: patience(240_000) },
  async () => {
    const source = await client.open('watched-source')
    await client.run(source, ['mkdir', 'w'])
    const ofSource = new Watcher(source, 'path=/home/user/w')
    await ofSource.read(() => ofSource.at.watch_id !== undefined)
    const begun = { ...ofSource.at }
    await make(source, 0, 10) // without a reader
    await client.operate(`/v1/workspaces/${source.id}/fork`, { json: { key: 'watched-fork' } })
    const fork = await client.open('watched-fork')
    const ofFork = new Watcher(fork, 'path=/home/user/w')
    ofFork.at = { ...begun }
    await Promise.all([make(source, 20, 25), make(fork, 10, 13)])
    await Promise.all([ofSource.read(() => ofSource.added().length === 15), ofFork.read(() => ofFork.added().length === 13)])
    assert.deepEqual([ofSource.added(), ofFork.added()], [[...paths(0, 10), ...paths(20, 25)], paths(0, 13)])
    assert.deepEqual([ofSource.missed, ofFork.missed], [0, 0])
    const offsets = (watcher: Watcher) => watcher.told.map(({ offset }) => offset)
    const counted = Array.from({ length: ofFork.told.length }, (_, at) => begun.offset + 1 + at)
    assert.deepEqual([offsets(ofFork), offsets(ofSource).slice(0, 10)], [counted, counted.slice(0, 10)])

    const later = new Watcher(source, 'path=/home/user/w&recursive=true')
    await later.read(() => later.at.watch_id !== undefined)
    const stranger = new Watcher(fork, 'path=/home/user/w&recursive=true')
    stranger.at = { ...later.at }
    await stranger.read(() => stranger.missed === 1)
    assert.notEqual(stranger.at.watch_id, later.at.watch_id)
    for (const { id } of [fork, source]) await client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })
  },
)

test('the SDK reports changes below a directory, made by commands and by API calls', { timeout: patience(240_000) }, async () => {
  const berth = new Berth({ url: service.base_url, apiKey: service.api_key })
  const ws = await berth.open('watched-sdk', { template: 'base' })
  const seen: string[] = []
  for await (const event of ws.files.watch('/home/user', { recursive: true })) {
    if (event.type === 'start') {
      await ws.files.write('/home/user/by-call', 'x')
      await ws.exec(['bash', '-c', 'mkdir -p a/b; echo x > a/b/f; chmod 700 a'])
    } else if (event.type === 'change') {
      seen.push(`${event.change} ${event.path.slice('/home/user/'.length)}`)
      if (event.change === 'metadata') break
    } else assert.fail(event.why)
  }
  assert.deepEqual(seen.filter((one) => !one.startsWith('modified')).toSorted(), [
    'added a',
    'added a/b',
    'added a/b/f',
    'added by-call',
    'metadata a',
  ])
  await ws.delete()
})

test('a watch of the SDK continues over a suspend', { timeout: patience(240_000) }, async () => {
  const berth = new Berth({ url: service.base_url, apiKey: service.api_key })
  const ws = await berth.open('watched-sdk-suspended', { template: 'base' })
  await ws.exec(['mkdir', 'w'])
  const seen: string[] = []
  for await (const event of ws.files.watch('/home/user/w')) {
    if (event.type === 'start') await ws.files.write('/home/user/w/before', 'x')
    else if (event.type === 'missed') assert.fail(event.why)
    else if (event.change === 'added') {
      seen.push(event.path)
      if (seen.length === 1) {
        await ws.suspend()
        await ws.files.write('/home/user/w/since', 'x')
      } else await ws.exec(['rm', '-r', 'w'])
    }
  }
  assert.deepEqual(seen, ['/home/user/w/before', '/home/user/w/since'])
  await ws.delete()
})

const FROM_PYTHON = `
from berth import Berth
with Berth() as berth, berth.open("watched-python", template="base") as ws:
    ws.exec(["mkdir", "w"])
    for event in ws.files.watch("/home/user/w"):
        if event["type"] == "start":
            ws.files.write("/home/user/w/before", b"x")
        elif event["type"] != "change":
            print(event)
        elif event["change"] == "added":
            print(event["path"], event["is_directory"])
            if event["path"].endswith("before"):
                ws.suspend()
                ws.files.write("/home/user/w/since", b"x")
            else:
                ws.exec(["rm", "-r", "w"])
    print("ended")
    ws.delete()
`

test(
  'a watch of the Python client continues over a suspend, and ends when the directory is gone',
  { skip: NO_PYTHON, timeout: patience(240_000) },
  async () => {
    const printed = await runPython(FROM_PYTHON, { url: service.base_url, api_key: service.api_key })
    assert.deepEqual(printed.trim().split('\n'), ['/home/user/w/before False', '/home/user/w/since False', 'ended'])
  },
)
