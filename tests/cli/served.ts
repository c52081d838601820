import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { createDouble, type Double } from '../../sdk/typescript/src/testing/double.ts'
import { builtCli, CLIENT_NODE } from '../support/built-clients.ts'
import { serveSockets } from '../support/double-sockets.ts'

const MAIN = await builtCli()

export interface Ran {
  code: number | null
  stdout: string
  stderr: string
}

export interface Served extends AsyncDisposable {
  double: Double
  url: string
  folder: string
  /** Delays each request until its promise resolves. */
  onRequest: ((url: string) => Promise<void> | void) | undefined
  berth(words: readonly string[], options?: RunOptions): Promise<Ran>
}

export interface RunOptions {
  stdin?: string | Buffer
  env?: Record<string, string>
  during?: (pid: number) => void
  within?: string
}

export async function serveDouble(): Promise<Served> {
  let double: Double | undefined
  const server = createServer((request, response) => {
    void (async () => {
      await served.onRequest?.(request.url ?? '')
      const body = request.method === 'GET' ? null : (Readable.toWeb(request) as ReadableStream)
      const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
      const init = { method: request.method ?? 'GET', headers, ...(body ? { body, duplex: 'half' as const } : {}) }
      const answer = await double?.options.fetch(`${url}${request.url ?? ''}`, init)
      response.writeHead(answer?.status ?? 500, Object.fromEntries(answer?.headers ?? []))
      for await (const chunk of (answer?.body ?? []) as AsyncIterable<Uint8Array>) response.write(chunk)
      response.end()
    })().catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const made = (double = createDouble({ url }))
  const endSockets = serveSockets(server, made)
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-cli-'))
  const served: Served = {
    double: made,
    url,
    folder,
    onRequest: undefined,
    berth: (words, options = {}) =>
      runBerth(words, {
        ...options,
        env: { BERTH_URL: url, BERTH_API_KEY: made.options.apiKey, BERTH_CONFIG_DIR: folder, ...options.env },
      }),
    async [Symbol.asyncDispose]() {
      endSockets()
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
      rmSync(folder, { recursive: true })
    },
  }
  return served
}

export async function runBerth(words: readonly string[], { stdin, env = {}, during, within }: RunOptions = {}): Promise<Ran> {
  const { PATH = '' } = process.env
  const command = [CLIENT_NODE, MAIN, ...words]
  const [program = '', ...args] = within === undefined ? command : ['unshare', '-rm', 'sh', '-c', within, 'sh', ...command]
  const child = spawn(program, args, {
    env: { PATH, ...env },
    stdio: [stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  })
  child.stdin?.on('error', () => undefined).end(stdin) // the process may exit without reading all of it
  const parts: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] }
  child.stdout?.on('data', (chunk: Buffer) => {
    parts.stdout.push(chunk)
    if (during && child.pid !== undefined) during(child.pid)
    during = undefined
  })
  child.stderr?.on('data', (chunk: Buffer) => void parts.stderr.push(chunk))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout: Buffer.concat(parts.stdout).toString(), stderr: Buffer.concat(parts.stderr).toString() }
}
