import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Inventory, Machine } from '../../contract/internal/host-inventory.ts'
import type { Subject } from '../../contract/internal/host-subject.ts'
import type { FakeHost } from '../../service/cell/host/fake/host.ts'
import { HostFailure } from '../../service/cell/host/hostd.ts'

export interface GuestPlace {
  address: string
  agent_key: string
}

/** The fake host does not simulate guests' places. */
export interface Guests {
  of(subject: Subject): Promise<GuestPlace>
  copied(from: Subject, to: Subject): void
  /** The machine's connections have ended too. */
  ended(subject: Subject): void
}

/** Serves hostd's protocol on a unix socket, for a cell process that tests may kill. */
export async function serveHost(host: FakeHost, guests: Guests, socket: string): Promise<AsyncDisposable> {
  const verbs = verbsOf(host, guests)
  const server = createServer((request, response) => {
    answer(host, verbs, request, response).catch((error: unknown) => {
      if (response.headersSent) return void response.destroy()
      send(response, error instanceof HostFailure ? 409 : 500, refusalOf(error))
    })
  })
  server.listen(socket)
  await once(server, 'listening')
  return {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

// The cell's own link sends the body of each verb.
// oxlint-disable-next-line typescript/no-explicit-any
type Work = (body: any) => Promise<unknown>

/** Verbs as in service/cell/host/hostd-client.ts, without file-first trees. */
function verbsOf(host: FakeHost, guests: Guests): Record<string, Work> {
  const placed = async (machine: Machine): Promise<Machine> => ({ ...machine, ...(await guests.of(machine.subject)) })
  const seen = async (inventory: Inventory): Promise<Inventory> => ({
    ...inventory,
    machines: await Promise.all(inventory.machines.map(placed)),
  })
  return {
    '/machines/start': async (body) => placed(await host.start(body)),
    '/machines/restore': async (body) => placed(await host.restore(body)),
    '/machines/connect': (body) => host.connect(body),
    '/machines/set_egress': (body) => host.setEgress(body),
    '/machines/egress_denials': async ({ subject }) => ({ denials: await host.egressDenials(subject) }),
    async '/machines/checkpoint'(body) {
      const saved = await host.checkpoint(body)
      guests.copied(body.subject, saved.subject)
      return saved
    },
    '/machines/unpause': (body) => host.unpause(body),
    async '/machines/stop'(body) {
      const counters = await host.stop(body)
      guests.ended(body.subject)
      return { counters }
    },
    '/machines/freeze': (body) => host.freeze(body),
    '/machines/thaw': (body) => host.thaw(body),
    '/machines/volumes': (body) => host.setVolumes(body),
    '/machines/measure': async ({ subjects }) => ({ machines: await host.stats(subjects) }),
    async '/checkpoints/clone'(body) {
      const saved = await host.cloneCheckpoint(body)
      guests.copied(body.source, saved.subject)
      return saved
    },
    '/checkpoints/delete': (body) => host.deleteCheckpoints(body),
    '/disks/delete': (body) => host.deleteDisks(body),
    '/disks/read': (body) => host.readDisk({ checkpoint_id: null, layers: [], ...body }),
    '/disks/measure': async ({ subjects }) => ({ disks: await measured(host, subjects) }),
    '/layers/make': (body) => host.makeLayer(body),
    '/layers/list': ({ layer, after }) => host.listLayer(layer, after),
    '/layers/keep': ({ layers }) => host.keepLayers(layers),
    '/layers/drop': async (body) => ({ dropped: await host.dropLayers(body) }),
    '/layers': () => host.layers(),
    '/volumes/create': (body) => host.createVolume(body),
    '/volumes/delete': (body) => host.deleteVolume(body),
    '/volumes/keep': (body) => host.keepVolume(body),
    '/volumes/measure': async ({ volume_ids }) => ({
      volumes: [...(await host.measureVolumes(volume_ids))].map(([volume_id, stored_bytes]) => ({ volume_id, stored_bytes })),
    }),
    '/subjects/fence': (body) => host.fence(body),
    async '/subjects/delete'(body) {
      const counters = await host.deleteSubject(body)
      guests.ended(body.subject)
      return { counters }
    },
    '/subjects/quarantine': (body) => host.quarantine(body),
    '/installation': ({ installation_id }) => host.claim(installation_id),
    '/inventory': async () => seen(await host.inventory()),
    '/inventory?files=false': async () => seen(await host.glance()),
    '/stats': async () => ({ machines: await host.stats() }),
  }
}

async function measured(host: FakeHost, subjects: Subject[]): Promise<{ subject: Subject; disk_bytes: number }[]> {
  const disks = await host.measureDisks(subjects.map(({ id }) => id))
  return subjects.flatMap((subject) => {
    const disk_bytes = disks.get(subject.id)
    return disk_bytes === undefined ? [] : [{ subject, disk_bytes }]
  })
}

async function answer(host: FakeHost, verbs: Record<string, Work>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = request.url ?? ''
  if (url.startsWith('/events')) return tellEvents(host, Number(new URL(url, 'http://hostd').searchParams.get('after')), response)
  const work = verbs[url]
  if (work === undefined) throw new Error(`the served fake has no ${url}`)
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString()
  send(response, 200, (await work(text === '' ? {} : JSON.parse(text))) ?? {})
}

/** Below the silence after which a cell considers the host gone. */
const BLANK_MS = 5000

async function tellEvents(host: FakeHost, after: number, response: ServerResponse): Promise<void> {
  const left = new AbortController()
  response.on('close', () => left.abort())
  response.writeHead(200).flushHeaders()
  const blank = setInterval(() => response.write('\n'), BLANK_MS)
  try {
    for await (const event of host.events(after, left.signal)) response.write(`${JSON.stringify(event)}\n`)
  } finally {
    clearInterval(blank)
    response.end()
  }
}

function refusalOf(error: unknown): object {
  if (!(error instanceof HostFailure)) return { code: 'internal', message: String(error), retryable: false }
  const { code, message, retryable, details } = error
  return { code, message, retryable, details }
}

function send(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}
