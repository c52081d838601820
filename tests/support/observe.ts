// Loaded before every test file (`--import`) when the runner collects what tests observe: whatever HTTP client a test uses, the
// answers that it got are noted as lines of the ledger. It listens only; no test runs differently because of it.
import { channel } from 'node:diagnostics_channel'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { appendFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { OBSERVED_VARIABLE, streamsEvents, type Exchange } from '../ledger/exchange.ts'

/** An error event is the last of its stream, and short. */
const TEXT_CHARACTERS_MAX = 1 << 16

const directory = process.env[OBSERVED_VARIABLE]
const noted = new Set<string>()
const require = createRequire(import.meta.url)
let observations: typeof import('../ledger/observations.ts') | undefined

function note(exchange: Exchange): void {
  if (directory === undefined) return
  // It loads every route of the contract, which takes half a second: most files have it by then, and many have no exchange.
  observations ??= require('../ledger/observations.ts') as typeof import('../ledger/observations.ts')
  const fresh = observations.observedLines(exchange).filter((line) => !noted.has(line))
  for (const line of fresh) noted.add(line)
  if (fresh.length > 0) appendFileSync(join(directory, `${process.pid}.txt`), `${fresh.join('\n')}\n`)
}

/** Collects as much of a body as the ledger reads. */
class Seen {
  readonly #exchange: Omit<Exchange, 'text'>
  readonly #wanted: boolean
  #text = ''

  constructor(exchange: Omit<Exchange, 'text'>) {
    this.#exchange = exchange
    this.#wanted = exchange.status >= 400 || streamsEvents(exchange.content_type)
  }
  more(chunk: unknown): void {
    if (this.#wanted && chunk instanceof Uint8Array) this.#text = (this.#text + Buffer.from(chunk).toString()).slice(-TEXT_CHARACTERS_MAX)
  }
  end(): void {
    note({ ...this.#exchange, text: this.#text })
  }
}

// What fetch() sends.
interface Fetched {
  request: { method: string; path: string }
}
const fetched = new WeakMap<Fetched['request'], Seen>()
channel('undici:request:headers').subscribe((message) => {
  const { request, response } = message as Fetched & { response: { statusCode: number; headers: Buffer[] } }
  const names = response.headers.map((each) => each.toString().toLowerCase())
  const content_type = names[names.indexOf('content-type') + 1] ?? ''
  fetched.set(request, new Seen({ method: request.method, path: request.path, status: response.statusCode, content_type }))
})
channel('undici:request:bodyChunkReceived').subscribe((message) => {
  const { request, chunk } = message as Fetched & { chunk: unknown }
  fetched.get(request)?.more(chunk)
})
channel('undici:request:trailers').subscribe((message) => fetched.get((message as Fetched).request)?.end())

// What http.request() sends. Its body is taken where the parser hands it over: a listener would make a paused stream flow.
channel('http.client.response.finish').subscribe((message) => {
  const { request, response } = message as { request: ClientRequest; response: IncomingMessage }
  const content_type = response.headers['content-type'] ?? ''
  const seen = new Seen({ method: request.method, path: request.path, status: response.statusCode ?? 0, content_type })
  const push = response.push.bind(response)
  response.push = (chunk, encoding) => {
    if (chunk === null) seen.end()
    else seen.more(chunk)
    return push(chunk, encoding)
  }
})

// What a WebSocket gets: the error message before a close is a refusal with the status 4000 more.
function noteSocket(url: string, text: string): void {
  const { pathname, search } = new URL(url)
  note({ method: 'GET', path: pathname + search, status: 101, content_type: 'websocket', text })
}
globalThis.WebSocket = class extends WebSocket {
  constructor(...given: ConstructorParameters<typeof WebSocket>) {
    super(...given)
    this.addEventListener('open', () => noteSocket(this.url, ''))
    this.addEventListener('message', (message: MessageEvent) => noteSocket(this.url, String(message.data)))
  }
}
interface Socket {
  emit(event: string, ...values: unknown[]): boolean
  url?: string
}
const SOCKETS: string = 'ws' // not every installation of the tests has it
const sockets = (await import(SOCKETS).catch(() => null)) as { WebSocket: { prototype: Socket } } | null
if (sockets !== null) {
  const { prototype } = sockets.WebSocket
  const emit = prototype.emit
  prototype.emit = function (this: Socket, event, ...values) {
    // A server's own socket has no url.
    if (this.url !== undefined && (event === 'message' || event === 'open')) noteSocket(this.url, event === 'open' ? '' : String(values[0]))
    return emit.call(this, event, ...values)
  }
}
