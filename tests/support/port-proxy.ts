import { connect, type Socket } from 'node:net'
import type { AskFrame, Refusal as Refused } from '../../contract/internal/ports.ts'
import { hostIdOf } from '../../service/core/workspaces/ports/host-id.ts'
import { until } from './processes.ts'

export interface CellFrame {
  grant?: { id: number; lease: number; address: string; port: number; workspace_id: string; epoch: number; expires_in_ms: number | null }
  ready?: { lease: number; address: string; epoch: number }
  redirect?: { id: number; path: string; cookie: string; max_age_seconds: number }
  refuse?: { id: number } & Refused
  cut?: { lease: number; reason: string; status: number }
  settle?: { id: number }
  known?: { id: number }
  listeners?: { id: number; addresses: string[] | null }
}

export interface PortProxy extends Disposable {
  readonly said: CellFrame[]
  readonly closed: boolean
  /** false: the test answers settle frames. */
  settles: boolean
  say(frame: object): void
  write(text: string): void
  ask(workspace_id: string, port: number, kind: AskFrame['credential']['kind'], value: string, more?: Partial<AskFrame>): Promise<CellFrame>
  heard(what: string, fits: (said: CellFrame) => boolean): Promise<CellFrame>
}

const WAIT_MS = 45_000

export async function portProxy(path: string): Promise<PortProxy> {
  const socket: Socket = connect(path)
  const said: CellFrame[] = []
  let rest = ''
  let closed = false
  let last_id = 0
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    const heard = lines.map((line) => JSON.parse(line) as CellFrame)
    said.push(...heard)
    for (const { settle } of heard) if (settle !== undefined && proxy.settles) say({ settled: { id: settle.id } })
  })
  socket.on('close', () => (closed = true))
  socket.on('error', () => undefined) // the end of the connection counts, which `close` reports
  const { promise: connected, resolve } = Promise.withResolvers<void>()
  socket.once('connect', resolve)
  await connected
  const write = (text: string) => void socket.write(text)
  const say = (frame: object) => write(`${JSON.stringify(frame)}\n`)
  const heard = async (what: string, fits: (one: CellFrame) => boolean): Promise<CellFrame> => {
    await until(what, WAIT_MS, () => Promise.resolve(closed || said.some(fits)))
    const found = said.find(fits)
    if (found === undefined) throw new Error(`the cell closed the connection before ${what}`)
    return found
  }
  say({ hello: { version: 3, port_host: 'ports.test' } })
  const proxy: PortProxy = {
    settles: true,
    said,
    get closed() {
      return closed
    },
    say,
    write,
    heard,
    async ask(workspace_id, port, kind, value, more = {}) {
      const id = (last_id += 1)
      const asked: AskFrame = {
        id,
        host_id: hostIdOf(workspace_id),
        port,
        credential: { kind, value },
        websocket: false,
        method: 'GET',
        client: '203.0.113.9',
      }
      say({ ask: { ...asked, ...more } })
      return heard('the answer to an ask', (one) => [one.grant?.id, one.redirect?.id, one.refuse?.id].includes(id))
    },
    [Symbol.dispose]: () => void socket.destroy(),
  }
  return proxy
}
