// Loaded before every test file (`--import`) when the runner collects observations. It records responses to any HTTP client as lines of the
// ledger.
import { channel } from 'node:diagnostics_channel'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { appendFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { OBSERVED_VARIABLE, streamsEvents, type Exchange } from '../ledger/exchange.ts'

/** Only the last characters count: an error event is short and the last of its stream. */
const TEXT_CHARACTERS_MAX = 1 << 16

const directory = process.env[OBSERVED_VARIABLE]
const noted = new Set<string>()
const require = createRequire(import.meta.url)
let observations: typeof import('../ledger/observations.ts') | undefined

function note(exchange: Exchange): void {
  if (directory === undefined) return
  // Loads the routes on demand: that takes half a second, and many files need none.
  observations ??= require('../ledger/observations.ts') as typeof import('../ledger/observations.ts')
  const fresh = observations.observedLines(exchange).filter((line) => !noted.has(line))
  for (const line of fresh) noted.add(line)
  if (fresh.length > 0) appendFileSync(join(directory, `${process.pid}.txt`), `${fresh.join('\n')}\n`)
}

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

// The parser's push is wrapped to read the body of an http.request(), because a listener would make a paused stream flow.
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

// A WebSocket's error message before its close counts as a refusal. Its close code is 4000 plus the status.
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
const SOCKETS: string = 'ws' // not every test installation has it
const sockets = (await import(SOCKETS).catch(() => null)) as { WebSocket: { prototype: Socket } } | null
if (sockets !== null) {
  const { prototype } = sockets.WebSocket
  const emit = prototype.emit
  prototype.emit = function (this: Socket, event, ...values) {
    // Skips a server's own sockets, which have no url.
    if (this.url !== undefined && (event === 'message' || event === 'open')) noteSocket(this.url, event === 'open' ? '' : String(values[0]))
    return emit.call(this, event, ...values)
  }
}
