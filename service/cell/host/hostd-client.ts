import { once } from 'node:events'
import { Agent, request, type ClientRequest, type IncomingMessage } from 'node:http'
import type { HostEvent } from '../../../contract/internal/host-inventory.ts'
import type { CommandHeader } from '../../../contract/internal/host-subject.ts'
import { HostFailure, type MachineHost } from './hostd.ts'
import { workspaceSubject } from './subject.ts'
import {
  parseCheckpoint,
  parseDenials,
  parseDiskReader,
  parseEgressSet,
  parseEnded,
  parseEvent,
  parseInventory,
  parseLayer,
  parseLayerList,
  parseLayersDropped,
  parseLayersHere,
  parseMachine,
  parseMeasures,
  parseRefusal,
  parseStats,
  parseVolumeMeasures,
} from './hostd-shapes.ts'

/** The time after which the client gives up. The verb continues in hostd, and a repeated call joins it. */
const DEADLINE_MS = {
  start: 60_000,
  restore: 180_000,
  checkpoint: 600_000,
  layer: 900_000,
  remove: 300_000,
  quick: 20_000,
}
const ANSWER_BYTES_MAX = 64 << 20
const EVENT_LINE_BYTES_MAX = 64 << 10
/** hostd writes a blank line every 15 s, so a longer silence means a lost connection. */
const EVENT_SILENCE_MS = 40_000

/** Separate pools: slow verbs must not delay those that hostd answers from memory. */
const CONNECTIONS_MAX = { slow: 64, quick: 32 }

/** Sent with every verb that changes something: the host checks that its pool belongs to this installation. */
const INSTALLATION_HEADER = 'berth-installation'

export function connectHostd(socket_path: string, deadlines = DEADLINE_MS): MachineHost {
  const agents = {
    slow: new Agent({ keepAlive: true, maxSockets: CONNECTIONS_MAX.slow, maxFreeSockets: 16 }),
    quick: new Agent({ keepAlive: true, maxSockets: CONNECTIONS_MAX.quick, maxFreeSockets: 16 }),
  }
  const to = (deadline_ms: number) => ({ agent: deadline_ms > deadlines.quick ? agents.slow : agents.quick, socket_path, deadline_ms })
  let installation: Record<string, string> = {}
  const post = (path: string, body: object, deadline_ms: number) => call(to(deadline_ms), 'POST', path, body, installation)
  const get = (path: string) => call(to(deadlines.quick), 'GET', path, undefined)
  const done = async (path: string, body: object, deadline_ms: number) => void (await post(path, body, deadline_ms))
  return {
    start: async (body) => parseMachine(await post('/machines/start', body, deadlines.start)),
    restore: async (body) => parseMachine(await post('/machines/restore', body, deadlines.restore)),
    connect: (body: CommandHeader) => done('/machines/connect', body, deadlines.quick),
    setEgress: async (body) => parseEgressSet(await post('/machines/set_egress', body, deadlines.quick)),
    egressDenials: async (subject) => parseDenials(await post('/machines/egress_denials', { subject }, deadlines.quick)),
    checkpoint: async (body) => parseCheckpoint(await post('/machines/checkpoint', body, deadlines.checkpoint)),
    unpause: (body) => done('/machines/unpause', body, deadlines.quick),
    stop: async (body) => parseEnded(await post('/machines/stop', body, deadlines.start)),
    freeze: (body) => done('/machines/freeze', body, deadlines.quick),
    thaw: (body) => done('/machines/thaw', body, deadlines.quick),
    cloneCheckpoint: async (body) => parseCheckpoint(await post('/checkpoints/clone', body, deadlines.checkpoint)),
    deleteCheckpoints: (body) => done('/checkpoints/delete', body, deadlines.remove),
    deleteDisks: (body) => done('/disks/delete', body, deadlines.remove),
    makeLayer: async (body) => parseLayer(await post('/layers/make', body, deadlines.layer)),
    listLayer: async (layer, after) => parseLayerList(await post('/layers/list', { layer, after }, deadlines.layer)),
    keepLayers: (layers) => done('/layers/keep', { layers }, deadlines.layer),
    layers: async () => parseLayersHere(await get('/layers')),
    dropLayers: async (body) => parseLayersDropped(await post('/layers/drop', body, deadlines.remove)),
    setVolumes: (body) => done('/machines/volumes', body, deadlines.start),
    createVolume: (body) => done('/volumes/create', body, deadlines.start),
    deleteVolume: (body) => done('/volumes/delete', body, deadlines.remove),
    keepVolume: (body) => done('/volumes/keep', body, deadlines.quick),
    measureVolumes: async (volume_ids) => parseVolumeMeasures(await post('/volumes/measure', { volume_ids }, deadlines.quick)),
    applyTree: (body, entries) => upload(to(deadlines.checkpoint), '/trees/apply', body, entries, installation),
    treeChanges: (body) => download(to(deadlines.checkpoint), '/trees/changes', body),
    fence: (body) => done('/subjects/fence', body, deadlines.checkpoint),
    deleteSubject: async (body) => parseEnded(await post('/subjects/delete', body, deadlines.remove)),
    readDisk: async ({ checkpoint_id, layers, ...asked }) => {
      const sleeping = checkpoint_id === null ? { layers } : { checkpoint_id }
      const body = asked.machine_epoch === undefined ? { ...asked, ...sleeping } : asked
      return parseDiskReader(await post('/disks/read', body, deadlines.quick))
    },
    async claim(installation_id) {
      await post('/installation', { installation_id }, deadlines.quick)
      installation = { [INSTALLATION_HEADER]: installation_id }
    },
    quarantine: (body) => done('/subjects/quarantine', body, deadlines.quick),
    inventory: async () => parseInventory(await get('/inventory')),
    glance: async () => parseInventory(await get('/inventory?files=false')),
    stats: async (subjects) => parseStats(await (subjects ? post('/machines/measure', { subjects }, deadlines.quick) : get('/stats'))),
    measureDisks: async (ids) => parseMeasures(await post('/disks/measure', { subjects: ids.map(workspaceSubject) }, deadlines.quick)),
    events: (after, signal) => followEvents(socket_path, after, signal),
    close: async () => Object.values(agents).forEach((agent) => agent.destroy()),
  }
}

function unreachable(cause: unknown): HostFailure {
  return new HostFailure('unreachable', 'The machine host does not answer', { retryable: true, cause })
}

interface Way {
  agent: Agent
  socket_path: string
  /** The time begins with the connection, because nothing was sent before. */
  deadline_ms: number
}

function call(
  { agent, socket_path, deadline_ms }: Way,
  method: 'GET' | 'POST',
  path: string,
  body: object | undefined,
  told: Record<string, string> = {},
): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const headers = bytes === undefined ? {} : { ...told, 'content-type': 'application/json', 'content-length': bytes.length }
  const outgoing = request({ agent, socketPath: socket_path, method, path, headers, host: 'hostd' }, (answer) => {
    readAnswer(answer).then(resolve, reject)
  })
  let deadline: NodeJS.Timeout | undefined
  outgoing.once('socket', () => {
    deadline = setTimeout(() => outgoing.destroy(new Error(`No answer within ${deadline_ms} ms`)), deadline_ms)
  })
  outgoing.on('error', (error) => reject(unreachable(error)))
  outgoing.end(bytes)
  return promise.finally(() => clearTimeout(deadline))
}

async function upload(
  { agent, socket_path, deadline_ms }: Way,
  path: string,
  first: object,
  entries: AsyncIterable<Buffer>,
  told: Record<string, string>,
): Promise<void> {
  const headers = { ...told, 'content-type': 'application/octet-stream' }
  const outgoing = request({ agent, socketPath: socket_path, method: 'POST', path, headers, host: 'hostd' })
  const answered = answerOf(outgoing, deadline_ms)
  const state = { is_over: false }
  const over = answered.then(
    () => void (state.is_over = true),
    () => void (state.is_over = true),
  )
  try {
    outgoing.write(`${JSON.stringify(first)}\n`)
    for await (const piece of entries) {
      if (state.is_over) break
      if (!outgoing.write(piece)) await Promise.race([once(outgoing, 'drain').catch(() => undefined), over])
    }
    if (!state.is_over) outgoing.end()
  } catch (error) {
    outgoing.destroy()
    await over
    throw error
  }
  await readAnswer(await answered)
  if (!outgoing.writableEnded) outgoing.destroy()
}

async function download({ socket_path, deadline_ms }: Way, path: string, body: object): Promise<AsyncIterable<Buffer>> {
  const bytes = Buffer.from(JSON.stringify(body))
  const headers = { 'content-type': 'application/json', 'content-length': bytes.length }
  // A separate connection, because the reader may break it off.
  const outgoing = request({ agent: false, socketPath: socket_path, method: 'POST', path, headers, host: 'hostd' })
  const answered = answerOf(outgoing, deadline_ms)
  outgoing.end(bytes)
  const answer = await answered
  if (answer.statusCode !== 200) await readAnswer(answer)
  return piecesOf(answer)
}

async function* piecesOf(answer: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* answer as AsyncIterable<Buffer>
  } catch (error) {
    throw unreachable(error)
  } finally {
    answer.destroy()
  }
}

function answerOf(outgoing: ClientRequest, deadline_ms: number): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const deadline = setTimeout(() => outgoing.destroy(new Error(`No answer within ${deadline_ms} ms`)), deadline_ms)
  outgoing.once('response', resolve)
  outgoing.on('error', (error) => reject(unreachable(error)))
  promise.catch(() => undefined) // the caller gets the error
  return promise.finally(() => clearTimeout(deadline))
}

async function readAnswer(answer: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > ANSWER_BYTES_MAX) throw new Error('The answer is too long')
      chunks.push(chunk)
    }
  } catch (error) {
    throw unreachable(error)
  }
  const status = answer.statusCode ?? 0
  const value = parseJson(Buffer.concat(chunks).toString('utf8'))
  if (status >= 200 && status < 300) return value
  throw parseRefusal(status, value)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text === '' ? '{}' : text)
  } catch (cause) {
    throw new HostFailure('invalid_answer', "The machine host's answer is not JSON", { retryable: false, cause })
  }
}

async function* followEvents(socket_path: string, after: number, signal: AbortSignal): AsyncGenerator<HostEvent> {
  const stream = await openEvents(socket_path, after, signal)
  let rest = ''
  try {
    for await (const chunk of stream.setEncoding('utf8') as AsyncIterable<string>) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > EVENT_LINE_BYTES_MAX)
        throw new HostFailure('invalid_answer', 'An event of the machine host is too long', { retryable: false })
      for (const line of lines) if (line.trim() !== '') yield parseEvent(parseJson(line))
    }
  } catch (error) {
    if (signal.aborted) return
    throw error instanceof HostFailure ? error : unreachable(error)
  } finally {
    stream.destroy()
  }
}

function openEvents(socket_path: string, after: number, signal: AbortSignal): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  // A separate connection: the endless stream would occupy one of the pool's.
  const outgoing = request({ agent: false, socketPath: socket_path, path: `/events?after=${after}`, host: 'hostd', signal }, (answer) => {
    if (answer.statusCode === 200) return resolve(answer)
    readAnswer(answer).then(() => reject(unreachable(undefined)), reject)
  })
  outgoing.setTimeout(EVENT_SILENCE_MS, () => outgoing.destroy(new Error('The machine host fell silent')))
  outgoing.on('error', (error) => reject(unreachable(error)))
  outgoing.end()
  return promise
}
