import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { startChild } from './child.ts'
import { measure } from './harness.ts'

const CLONE = path.join(import.meta.dirname, '..', '..')
const PORT_HOST = 'ports.localhost'
const HOST = `3000-agnlulephz6udhcvaerukz4jvm.${PORT_HOST}`
const TOKEN = `sfp_${'t'.repeat(43)}`
const CONNECTIONS = 16
const REQUESTS = 4_000
const SERVES = /listen=(\S+)/

/** A fake cell grants everything. */
export async function portsRow(): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-bench-'))
  const children: ChildProcess[] = []
  const start = (binary: string, ...args: string[]) => {
    const child = spawn(path.join(folder, binary), args, { stdio: ['pipe', 'pipe', 'pipe'] })
    children.push(child)
    return child
  }
  build(folder, path.join(CLONE, 'machine'), './cmd/portd', 'portd')
  build(folder, path.join(CLONE, 'tests', 'bench', 'port-tools'), 'main.go', 'port-tools')
  const app = await firstLine(start('port-tools', 'app'))
  const cell = await fakeCell(path.join(folder, 'cell'), app)
  try {
    const relay = await firstLine(start('port-tools', 'relay', app))
    const portd = await startPortd(folder, start)
    await using proxy = await startChild('http-proxy-server.ts', `http://${app}`)
    const load = loader(start('port-tools', 'load'))
    const { address } = proxy.told as { address: string }
    const subject = () => load(portd)
    await measure(
      { row: 21, name: 'port-proxy', title: 'port proxy, 1 KiB, rate beside http-proxy', bar: { at_least: 1.3 } },
      { reference: () => load(address), subject },
      { rate: true },
    )
    await measure(
      { row: 21, name: 'port-proxy-relay', title: 'the same beside a raw TCP relay', bar: { at_least: 0.4 } },
      { reference: () => load(relay), subject },
      { rate: true },
    )
  } finally {
    for (const child of children) child.kill('SIGKILL')
    cell.close()
    rmSync(folder, { recursive: true })
  }
}

function build(folder: string, from: string, source: string, name: string): void {
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '' }
  execFileSync('go', ['build', '-ldflags', '-s -w', '-o', path.join(folder, name), source], { cwd: from, env })
}

async function firstLine(child: ChildProcess): Promise<string> {
  const [line] = (await once(linesOf(child, 'stdout'), 'line')) as [string]
  return line
}

function linesOf(child: ChildProcess, from: 'stdout' | 'stderr'): Interface {
  const stream = child[from]
  if (stream === null) throw new Error('the output of a child is a pipe')
  return createInterface(stream)
}

async function startPortd(folder: string, start: (binary: string, ...args: string[]) => ChildProcess): Promise<string> {
  const config = path.join(folder, 'portd.json')
  const settings = {
    listen: '127.0.0.1:0',
    port_host: PORT_HOST,
    public_scheme: 'http',
    socket: path.join(folder, 'cell'),
    certificate: '',
    key: '',
    drain_seconds: 1,
  }
  writeFileSync(config, JSON.stringify({ ...settings, trusted_proxies: [] }))
  for await (const line of linesOf(start('portd', '--config', config), 'stderr')) {
    const [, address] = SERVES.exec(line) ?? []
    if (address !== undefined) return address
  }
  throw new Error('portd has ended')
}

async function fakeCell(socket: string, app: string): Promise<Server> {
  const [address = '', port = ''] = app.split(':')
  const server = createServer((connection) => {
    createInterface(connection).on('line', (line) => {
      const { ask, busy } = JSON.parse(line) as { ask?: { id: number }; busy?: { lease: number } }
      const machine = { address, port: Number(port), workspace_id: 'w', epoch: 1, expires_in_ms: null }
      if (ask) connection.write(`${JSON.stringify({ grant: { id: ask.id, lease: ask.id, ...machine } })}\n`)
      if (busy) connection.write(`${JSON.stringify({ ready: { lease: busy.lease, address, epoch: 1 } })}\n`)
    })
    connection.on('error', () => connection.destroy()) // portd is killed at the end
  })
  await new Promise<void>((resolve) => server.listen(socket, resolve))
  return server
}

function loader(child: ChildProcess): (address: string) => Promise<number> {
  const lines = linesOf(child, 'stdout')[Symbol.asyncIterator]()
  child.stderr?.pipe(process.stderr)
  return async (address) => {
    child.stdin?.write(`${address} ${HOST} ${TOKEN} ${CONNECTIONS} ${REQUESTS}\n`)
    const { value, done } = await lines.next()
    if (done === true) throw new Error('the load has ended')
    return Number(value)
  }
}
