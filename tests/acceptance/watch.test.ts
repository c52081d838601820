import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { type Client, createClient, ndjson, type OpenedWorkspace, send } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

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

/** Reads as a client does that loses its connection, and knows nothing but the watch and its offset. */
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
  /** Until `enough`, or the end; then the connection is cut. */
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

test('a hundred changes are each told once over a cut connection, a suspend and a resume', { timeout: 240_000 }, async () => {
  const workspace = await client.open('watched')
  await client.run(workspace, ['mkdir', 'w'])
  const watcher = new Watcher(workspace, 'path=/home/user/w')
  await watcher.read(() => watcher.at.watch_id !== undefined)
  await make(workspace, 0, 50)
  await watcher.read(() => watcher.added().length === 20)
  await make(workspace, 50, 80) // nobody reads
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

test('the SDK tells what changes below a directory, whoever makes it', { timeout: 240_000 }, async () => {
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
