import { Agent, request, type IncomingMessage } from 'node:http'
import { HostFailure, type Fence, type HostEvent, type MachineHost } from './hostd.ts'
import {
  parseCheckpoint,
  parseDiskReader,
  parseEvent,
  parseInventory,
  parseMachine,
  parseMeasures,
  parseRefusal,
  parseStats,
} from './hostd-shapes.ts'

/** How long each verb may take before the link gives up on it. The verb itself goes on in hostd, and a repeat joins it. */
const DEADLINE_MS = {
  start: 60_000,
  restore: 180_000,
  checkpoint: 600_000,
  remove: 300_000,
  quick: 20_000,
}
const ANSWER_BYTES_MAX = 64 << 20
const EVENT_LINE_BYTES_MAX = 64 << 10
/** hostd writes a blank line every 15 s: longer silence means that nobody is there. */
const EVENT_SILENCE_MS = 40_000

/** The machine host behind hostd's unix socket. */
export function connectHostd(socket_path: string): MachineHost {
  const agent = new Agent({ keepAlive: true, maxSockets: 64, maxFreeSockets: 16 })
  const post = (path: string, body: object, deadline_ms: number) => call(agent, socket_path, 'POST', path, body, deadline_ms)
  const done = async (path: string, body: object, deadline_ms: number) => void (await post(path, body, deadline_ms))
  return {
    start: async (body) => parseMachine(await post('/machines/start', body, DEADLINE_MS.start)),
    restore: async (body) => parseMachine(await post('/machines/restore', body, DEADLINE_MS.restore)),
    connect: (body: Fence) => done('/machines/connect', body, DEADLINE_MS.quick),
    checkpoint: async (body) => parseCheckpoint(await post('/machines/checkpoint', body, DEADLINE_MS.checkpoint)),
    unpause: (body) => done('/machines/unpause', body, DEADLINE_MS.quick),
    stop: (body) => done('/machines/stop', body, DEADLINE_MS.start),
    freeze: (body) => done('/machines/freeze', body, DEADLINE_MS.quick),
    thaw: (body) => done('/machines/thaw', body, DEADLINE_MS.quick),
    cloneCheckpoint: async (body) => parseCheckpoint(await post('/checkpoints/clone', body, DEADLINE_MS.checkpoint)),
    deleteCheckpoints: (body) => done('/checkpoints/delete', body, DEADLINE_MS.remove),
    deleteDisks: (body) => done('/disks/delete', body, DEADLINE_MS.remove),
    fence: (body) => done('/workspaces/fence', body, DEADLINE_MS.checkpoint),
    deleteWorkspace: (body) => done('/workspaces/delete', body, DEADLINE_MS.remove),
    readDisk: async ({ checkpoint_id, layers, ...asked }) => {
      const body = checkpoint_id === null ? { ...asked, layers } : { ...asked, checkpoint_id }
      return parseDiskReader(await post('/disks/read', body, DEADLINE_MS.quick))
    },
    inventory: async () => parseInventory(await call(agent, socket_path, 'GET', '/inventory', undefined, DEADLINE_MS.quick)),
    stats: async () => parseStats(await call(agent, socket_path, 'GET', '/stats', undefined, DEADLINE_MS.quick)),
    measureDisks: async (workspace_ids) => parseMeasures(await post('/disks/measure', { workspace_ids }, DEADLINE_MS.quick)),
    events: (after, signal) => followEvents(socket_path, after, signal),
    close: async () => agent.destroy(),
  }
}

function unreachable(cause: unknown): HostFailure {
  return new HostFailure('unreachable', 'The machine host does not answer', { retryable: true, cause })
}

function call(
  agent: Agent,
  socket_path: string,
  method: 'GET' | 'POST',
  path: string,
  body: object | undefined,
  deadline_ms: number,
): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const headers = bytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': bytes.length }
  const outgoing = request({ agent, socketPath: socket_path, method, path, headers, host: 'hostd' }, (answer) => {
    readAnswer(answer).then(resolve, reject)
  })
  const deadline = setTimeout(() => outgoing.destroy(new Error(`No answer within ${deadline_ms} ms`)), deadline_ms)
  outgoing.on('error', (error) => reject(unreachable(error)))
  outgoing.end(bytes)
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
  // A connection of its own: a stream without end would occupy one of the pool's.
  const outgoing = request({ agent: false, socketPath: socket_path, path: `/events?after=${after}`, host: 'hostd', signal }, (answer) => {
    if (answer.statusCode === 200) return resolve(answer)
    readAnswer(answer).then(() => reject(unreachable(undefined)), reject)
  })
  outgoing.setTimeout(EVENT_SILENCE_MS, () => outgoing.destroy(new Error('The machine host fell silent')))
  outgoing.on('error', (error) => reject(unreachable(error)))
  outgoing.end()
  return promise
}
