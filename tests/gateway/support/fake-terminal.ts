import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { answer, type FakeAgent, frame, KIND } from './fake-agent.ts'

export const TERMINAL = {
  session_id: 't',
  argv: ['/bin/bash', '-l'],
  cwd: '/home/user',
  user: 'user',
  state: 'running',
  pid: 7,
  cols: 80,
  rows: 24,
  exit_code: null,
  term_signal: null,
  started_at: '2026-01-01T00:00:00.000Z',
  ended_at: null,
  error: null,
  output_bytes: 0,
  output_available_from: 0,
}

export class FakeTerminal {
  readonly asked: { method: string; url: string; body: unknown }[] = []
  taken = Buffer.alloc(0)
  #connection = Promise.withResolvers<Duplex>()
  #more: (() => void) | null = null
  #offset = 0

  constructor(agent: FakeAgent) {
    agent.script = async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
      const text = Buffer.concat(chunks).toString()
      this.asked.push({ method: request.method ?? '', url: request.url ?? '', body: text === '' ? null : (JSON.parse(text) as unknown) })
      answer(response, request.url === '/pty' ? 201 : 200, TERMINAL)
    }
    agent.upgrade = (request: IncomingMessage, socket) => {
      this.asked.push({ method: request.method ?? '', url: request.url ?? '', body: null })
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: berth-frames\r\n\r\n')
      socket.on('data', (chunk: Buffer) => {
        this.taken = Buffer.concat([this.taken, chunk])
        this.#more?.()
      })
      this.#connection.resolve(socket)
    }
  }
  async print(text: string): Promise<void> {
    ;(await this.#connection.promise).write(frame(KIND.stdout, this.#offset, text))
    this.#offset += text.length
  }
  async send(bytes: Buffer): Promise<void> {
    ;(await this.#connection.promise).write(bytes)
  }
  exit(): Promise<void> {
    const ended = {
      ...TERMINAL,
      argv: null,
      state: 'exited',
      exit_code: 0,
      ended_at: '2026-01-01T00:00:01.000Z',
      output_bytes: this.#offset,
    }
    return this.send(frame(KIND.exit, 0, JSON.stringify(ended)))
  }
  async took(bytes: number): Promise<Buffer> {
    while (this.taken.length < bytes) await new Promise<void>((resolve) => (this.#more = resolve))
    return this.taken
  }
}
