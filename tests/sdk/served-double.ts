import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { createDouble, type Program } from '../../sdk/typescript/src/testing/double.ts'
import { serveSockets } from '../support/double-sockets.ts'
import { play } from './suite.ts'

export interface ServedDouble extends AsyncDisposable {
  url: string
  api_key: string
}

const sh: Program = async ({ argv, stdout, stderr, files, signal }) => {
  const append = (path: string, text: string) =>
    void files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), Buffer.from(text)]))
  const cancelled = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  return play(argv[2] ?? '', { stdout, stderr, append, cancelled })
}

const count: Program = ({ argv: [, name = '', bytes = '0'], stdout, files }) => {
  const path = `/home/user/runs-${name}`
  files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), Buffer.from('x')]))
  for (let left = Number(bytes); left > 0; left -= 1000) stdout(`${name}${'.'.repeat(999)}`.slice(0, Math.min(left, 1000)))
  return 0
}

const python3: Program = ({ argv, stdout, stderr }) => {
  const ran = spawnSync('python3', argv.slice(1), { encoding: 'utf8' })
  stdout(ran.stdout)
  stderr(ran.stderr)
  return ran.status ?? 1
}

export async function serveToOthers(network: (through: typeof fetch) => typeof fetch = (through) => through): Promise<ServedDouble> {
  const server = createServer((request, response) => {
    void (async () => {
      const { status, headers, body } = await answer(requestOf(url, request))
      response.writeHead(status, Object.fromEntries(headers))
      for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) response.write(chunk)
      response.end()
    })().catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { options } = createDouble({ url, programs: { sh, bash: sh, count, python3 } })
  const answer = network(options.fetch)
  const endSockets = serveSockets(server, { options })
  return {
    url,
    api_key: options.apiKey,
    async [Symbol.asyncDispose]() {
      endSockets()
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function requestOf(url: string, request: IncomingMessage): Request {
  const has_body = request.method !== 'GET'
  const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
  const body = has_body ? { body: Readable.toWeb(request) as ReadableStream, duplex: 'half' as const } : {}
  return new Request(`${url}${request.url ?? ''}`, { method: request.method ?? 'GET', headers, ...body })
}
