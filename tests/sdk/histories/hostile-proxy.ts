import { once } from 'node:events'
import { Agent, createServer, request as ask, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { generatorOf } from '../../support/seed.ts'

/** null: the process is down. */
export interface Upstream {
  api(): string | null
  cell(): string | null
  /** The gateway's address, which the proxy replaces in answers with its own. */
  endpoint: string
}

/**
 * `URL/SEED` loses, cuts, delays and repeats requests and answers as the seed says. `URL/calm` has only faults of a service that is down.
 */
export interface HostileProxy extends Disposable {
  of(seed: number | 'calm'): string
  faults: ReadonlyMap<string, number>
}

type Random = () => number

interface Passing {
  request: IncomingMessage
  response: ServerResponse
  body: Buffer
  path: string
  to: 'api' | 'cell'
  cell_url: string
}

const ADDRESS = /^\/([a-z0-9]+)(\/cell)?(\/v1\/.*)$/

export async function openHostileProxy(upstream: Upstream, control: (path: string) => Promise<void>): Promise<HostileProxy> {
  const faults = new Map<string, number>()
  const randoms = new Map<string, Random>()
  const agent = new Agent({ keepAlive: true })
  const happen = (fault: string) => void faults.set(fault, (faults.get(fault) ?? 0) + 1)
  const randomOf = (seed: string): Random | null => {
    if (seed === 'calm') return null
    const known = randoms.get(seed) ?? generatorOf(Number(seed))
    randoms.set(seed, known)
    return known
  }
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [, seed = '', gateway, path = ''] = ADDRESS.exec(request.url ?? '') ?? []
    const body = await bodyOf(request)
    if (path === '') {
      await control(request.url ?? '')
      return void response.end()
    }
    const to = gateway === undefined ? 'api' : 'cell'
    const passing = { request, response, body, path, to, cell_url: `${url()}/${seed}/cell` } as const
    const random = randomOf(seed)
    if (random === null) return pass(passing, { upstream, agent, random: Math.random, bytes_max: Infinity, happen })
    return passBadly(passing, { upstream, agent, random, happen })
  }
  const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    of: (seed) => `${url()}/${seed}`,
    faults,
    [Symbol.dispose]() {
      agent.destroy()
      server.closeAllConnections()
      server.close()
    },
  }
}

interface Way {
  upstream: Upstream
  agent: Agent
  random: Random
  happen: (fault: string) => void
}

async function passBadly(passing: Passing, way: Way): Promise<void> {
  const { request, response, body } = passing
  const { random, happen } = way
  const fate = random()
  if (fate < 0.04) {
    happen('lost request')
    return void response.destroy()
  }
  if (fate < 0.08) {
    happen('foreign answer')
    return foreign(response, 502)
  }
  if (fate < 0.12 && body.length > 0) {
    happen('truncated request')
    await arrive(passing, way, Math.floor(random() * body.length))
    return void response.destroy()
  }
  if (fate < 0.2 && mayArriveTwice(request)) {
    happen('duplicate')
    const first = arrive(passing, way)
    if (random() < 0.5) await first
  }
  if (fate < 0.24) {
    happen('lost answer')
    await arrive(passing, way)
    return void response.destroy()
  }
  if (fate < 0.3) {
    happen('delay')
    await pause(random() * 20)
  }
  const is_cut = fate < 0.42
  if (is_cut) happen('cut answer')
  return pass(passing, { ...way, bytes_max: is_cut ? Math.floor(random() ** 2 * 20_000) : Infinity })
}

/** The request changes nothing, or the service recognizes a repeat by its key, id or offset. */
function mayArriveTwice({ method, url = '', headers }: IncomingMessage): boolean {
  const path = url.split('?', 1)[0] ?? ''
  return method === 'GET' || 'idempotency-key' in headers || /\/(exec|stdin|tool-tokens)$/.test(path)
}

async function arrive(passing: Passing, way: Way, bytes = passing.body.length): Promise<void> {
  const sent = send(passing, way, bytes)
  const answer = await sent?.catch(() => null)
  answer?.destroy()
}

/** @param bytes_max of the answer, before it breaks off */
async function pass(passing: Passing, { bytes_max, ...way }: Way & { bytes_max: number }): Promise<void> {
  const { response, to, cell_url } = passing
  const answer = await send(passing, way)?.catch(() => null)
  if (!answer) {
    way.happen('nobody there')
    // A load balancer answers 503; without one, the connection ends.
    return way.random() < 0.5 ? foreign(response, 503) : void response.destroy()
  }
  const { 'content-length': length, 'transfer-encoding': _coding, ...headers } = answer.headers
  answer.on('error', () => response.destroy())
  response.on('close', () => answer.destroy())
  // Read whole, because an api answer may contain the gateway's address.
  const pieces = to === 'cell' ? answer : [Buffer.from((await bodyOf(answer)).toString().replaceAll(way.upstream.endpoint, cell_url))]
  const told = to === 'cell' ? (length === undefined ? {} : { 'content-length': length }) : {}
  response.writeHead(answer.statusCode ?? 0, { ...headers, ...told })
  let left = bytes_max
  for await (const piece of pieces as AsyncIterable<Buffer>) {
    if (piece.length > left) {
      return void response.write(piece.subarray(0, left), () => response.destroy())
    }
    left -= piece.length
    if (!response.write(piece)) await Promise.race([once(response, 'drain'), once(response, 'close')])
  }
  response.end()
}

function send({ request, body, path, to }: Passing, { upstream, agent }: Way, bytes = body.length): Promise<IncomingMessage> | null {
  const base = upstream[to]()
  if (base === null) return null
  const { host: _host, connection: _connection, 'transfer-encoding': _coding, 'content-length': _length, ...headers } = request.headers
  const length = body.length > 0 || request.method !== 'GET' ? { 'content-length': body.length } : {}
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const outgoing = ask(`${base}${path}`, { agent, method: request.method ?? 'GET', headers: { ...headers, ...length } }, resolve)
  outgoing.on('error', reject)
  if (bytes === body.length) outgoing.end(body)
  else outgoing.write(body.subarray(0, bytes), () => outgoing.destroy())
  return promise
}

function foreign(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'text/html' }).end('<html><h1>Bad gateway</h1></html>')
}

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}
