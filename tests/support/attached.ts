import { once } from 'node:events'
import { WebSocket, type ClientOptions } from 'ws'

export interface AttachEvent {
  type: 'output' | 'exit' | 'heartbeat' | 'error' | 'stdin'
  stream?: 'stdout' | 'stderr'
  offset?: number
  data?: string
  error?: {
    code: string
    message: string
    request_id: string
    retryable: boolean
    operation_id?: string
    details?: Record<string, unknown>
  }
  [field: string]: unknown
}

export interface Closed {
  code: number
  reason: string
}

export interface Attached extends AsyncIterable<AttachEvent> {
  socket: WebSocket
  headers: Record<string, string | string[] | undefined>
  say(message: unknown): void
  /** undefined: closed, and everything was read. */
  next(): Promise<AttachEvent | undefined>
  /** @returns the newly printed text, once it matches; after a minute, fails with this text */
  until(fits: RegExp): Promise<string>
  rest(): Promise<AttachEvent[]>
  closed: Promise<Closed>
}

export async function attach(url: string, options: { token?: string; protocols?: string[]; ws?: ClientOptions } = {}): Promise<Attached> {
  const headers = options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }
  const socket = new WebSocket(url.replace(/^http/, 'ws'), options.protocols ?? [], {
    ...options.ws,
    headers: { ...headers, ...options.ws?.headers },
  })
  const events: AttachEvent[] = []
  const waiting: ((event: AttachEvent | undefined) => void)[] = []
  let over = false
  const give = (event: AttachEvent | undefined) => {
    const reader = waiting.shift()
    if (reader) reader(event)
    else if (event) events.push(event)
  }
  socket.on('message', (data: Buffer) => give(JSON.parse(data.toString()) as AttachEvent))
  const closed = new Promise<Closed>((resolve) => {
    socket.once('close', (code, reason) => {
      over = true
      while (waiting.length > 0) give(undefined)
      resolve({ code, reason: reason.toString() })
    })
  })
  let answered: Attached['headers'] = {}
  socket.once('upgrade', (response) => (answered = response.headers))
  await once(socket, 'open')
  socket.on('error', () => undefined) // after a break, `close` reports the code 1006
  const next = () => {
    const event = events.shift()
    if (event || over) return Promise.resolve(event)
    return new Promise<AttachEvent | undefined>((resolve) => waiting.push(resolve))
  }
  async function* all() {
    for (let event = await next(); event !== undefined; event = await next()) yield event
  }
  return {
    socket,
    headers: answered,
    say: (message) => socket.send(typeof message === 'string' || message instanceof Buffer ? message : JSON.stringify(message)),
    next,
    async until(fits) {
      let text = ''
      const patience = setTimeout(() => socket.terminate(), 60_000)
      try {
        for await (const event of all()) {
          if (event.type === 'error' || event.type === 'exit') throw new Error(`${JSON.stringify(event)} came before ${fits}: ${text}`)
          text += printed(event)
          if (fits.test(text)) return text
        }
      } finally {
        clearTimeout(patience)
      }
      throw new Error(`The connection closed, or a minute went by, before ${fits}: ${text}`)
    },
    async rest() {
      const left: AttachEvent[] = []
      for await (const event of all()) left.push(event)
      return left
    },
    closed,
    [Symbol.asyncIterator]: all,
  }
}

/** Latin-1 preserves every byte. */
export const printed = (event: AttachEvent) => (event.type === 'output' ? Buffer.from(event.data ?? '', 'base64').toString('latin1') : '')
