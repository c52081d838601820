import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { type Context, CliError, usageError } from './command.ts'
import { type Bounds, Budget, TOOL_SETS, type ToolSet } from './mcp-budget.ts'
import { createMcpHandler, StdioServerTransport } from './mcp-library.ts'
import { createMcpServer } from './mcp-tools.ts'

const VERSION = '0.1.0'
const CALLS_MAX = 10_000
const WORKSPACES_MAX = 10
const BODY_BYTES_MAX = 8 << 20

export async function serveMcp(context: Context): Promise<number> {
  const budget = new Budget(context.berth(), boundsOf(context.flags))
  const listen = context.flags['listen']
  if (typeof listen === 'string') return serveHttp(context, budget, Number(listen))
  const server = createMcpServer(budget, VERSION)
  await server.connect(new StdioServerTransport())
  await new Promise<void>((resolve) => void process.stdin.once('close', resolve).once('end', resolve))
  await server.close()
  return 0
}

function boundsOf(flags: Context['flags']): Bounds {
  const tools = typeof flags['tools'] === 'string' ? flags['tools'].split(',') : TOOL_SETS
  const unknown = tools.find((each) => !TOOL_SETS.includes(each as ToolSet))
  if (unknown !== undefined) throw usageError(`--tools takes some of ${TOOL_SETS.join(',')}, not ${unknown}`, 'berth mcp --help')
  const { prefix = 'mcp-', template = 'base' } = flags as { prefix?: string; template?: string }
  const number = (name: string, otherwise: number) => {
    const given = Number(flags[name] ?? otherwise)
    if (!Number.isInteger(given) || given < 1) throw usageError(`--${name} takes a number`, 'berth mcp --help')
    return given
  }
  return {
    prefix,
    template,
    tools: tools as ToolSet[],
    calls_max: number('calls-max', CALLS_MAX),
    workspaces_max: number('workspaces-max', WORKSPACES_MAX),
  }
}

async function serveHttp({ say, print }: Context, budget: Budget, port: number): Promise<number> {
  const token = process.env['BERTH_MCP_TOKEN']
  if (!token || token.length < 16)
    throw new CliError('BERTH_MCP_TOKEN, of 16 characters at least, is what clients send as their bearer token', { exit_code: 2 })
  const handler = createMcpHandler(() => createMcpServer(budget, VERSION))
  const server = createServer((request, response) => {
    if (!isAllowed(request, token)) return void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
    answer(request, response, (asked) => handler.fetch(asked)).catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => void server.once('error', reject).listen(port, '127.0.0.1', resolve))
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  print(at)
  say('Ctrl-C ends it.')
  await new Promise<void>((resolve) => void process.once('SIGINT', resolve).once('SIGTERM', resolve))
  await handler.close()
  server.closeAllConnections()
  server.close()
  return 0
}

/** Refuses requests with an Origin header: they come from web pages, which may not call this server. */
function isAllowed({ headers }: IncomingMessage, token: string): boolean {
  if (headers.origin !== undefined) return false
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${token}`))
}

async function answer(request: IncomingMessage, response: ServerResponse, ask: (asked: Request) => Promise<Response>): Promise<void> {
  if (Number(request.headers['content-length'] ?? 0) > BODY_BYTES_MAX) return void response.writeHead(413).end()
  const { method = 'GET', url = '/' } = request
  const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
  const body = method === 'GET' ? {} : { body: Readable.toWeb(request) as ReadableStream, duplex: 'half' as const }
  const left = new AbortController()
  response.once('close', () => left.abort())
  const said = await ask(new Request(`http://127.0.0.1${url}`, { method, headers, signal: left.signal, ...body }))
  response.writeHead(said.status, Object.fromEntries(said.headers))
  if (said.body) for await (const chunk of said.body) response.write(chunk)
  response.end()
}
