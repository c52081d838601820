import { lookup } from 'node:dns'
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { AddressInfo, LookupFunction } from 'node:net'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type Run, usageError } from './command.ts'

const TOKEN_SECONDS = 3600

export const port: Run = async ({ workspace, flags, print, say }, [name = '', text = '']) => {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 1) throw usageError(`${text} is no port`, 'berth port WORKSPACE 8000')
  const ws = await workspace(name)
  if (flags['close'] === true) return void (await ws.ports.close(number))
  await ws.ports.expose(number)
  if (flags['link'] === true) return void print((await ws.ports.link(number)).url)
  const server = await forward(ws, number, Number(flags['local'] ?? 0), say)
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  print(at)
  say(`${at} is port ${number} of ${name}. Ctrl-C ends it.`)
  await new Promise<void>((resolve) => void process.once('SIGINT', resolve).once('SIGTERM', resolve))
  server.closeAllConnections()
  server.close()
  return 0
}

async function forward(ws: Workspace, port: number, local: number, say: (line: string) => void): Promise<http.Server> {
  const tell = refusalTeller(say)
  let token = await ws.ports.token(port, { ttl_seconds: TOKEN_SECONDS })
  const renew = setInterval(
    () => {
      ws.ports.token(port, { ttl_seconds: TOKEN_SECONDS }).then(
        (next) => (token = next),
        () => undefined, // the next interval tries again, before the current token expires
      )
    },
    (TOKEN_SECONDS * 1000) / 3,
  )
  renew.unref()
  const ask = ({ method, url, headers }: IncomingMessage) => {
    const place = new URL(token.url)
    const options = {
      method,
      path: url,
      headers: { ...withoutHost(headers), host: place.host, 'x-service-token': token.token },
      lookup: named,
    }
    return (place.protocol === 'https:' ? https : http).request(place.origin, options)
  }
  const server = http.createServer((request, response) => {
    const asked = ask(request)
    asked.on('response', (answer) => {
      tell(answer)
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response).on('error', () => answer.destroy())
    })
    asked.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end('The workspace did not answer\n')))
    request.pipe(asked)
  })
  server.on('upgrade', (request, socket) => {
    const asked = ask(request)
    asked.on('upgrade', (answer, other, head) => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${pairsOf(answer.rawHeaders)}\r\n`)
      other.write(head)
      other.pipe(socket).pipe(other)
      for (const each of [socket, other]) each.on('error', () => void [socket, other].forEach((both) => both.destroy()))
    })
    // The app refused the upgrade, or the service could not reach the app.
    asked.on('response', (answer) => {
      tell(answer)
      socket.write(`HTTP/1.1 ${answer.statusCode ?? 502} ${answer.statusMessage ?? ''}\r\n${pairsOf(closing(answer.rawHeaders))}\r\n`)
      answer.pipe(socket).on('error', () => answer.destroy())
    })
    asked.on('error', () => socket.destroy())
    asked.end()
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new CliError(`Port ${local} is not free here: ${error.message}`)))
    server.listen(local, '127.0.0.1', resolve)
  })
  return server
}

const REFUSAL_BYTES_MAX = 16_384

/** Reports a refusal only if it differs from the last one. */
function refusalTeller(say: (line: string) => void): (answer: IncomingMessage) => void {
  let last = ''
  return (answer) => {
    const reason = answer.headers['x-service-reason']
    if (typeof reason !== 'string') return
    let text = ''
    answer.on('data', (chunk: Buffer) => {
      if (text.length < REFUSAL_BYTES_MAX) text += chunk.toString()
    })
    answer.on('end', () => {
      const line = `${answer.statusCode ?? ''} ${reason}: ${messageOf(text)}`
      if (line !== last) say(line)
      last = line
    })
  }
}

function messageOf(text: string): string {
  const page = /<p>([^<]*)<\/p>/.exec(text)?.[1]
  if (page !== undefined) return page.replaceAll('&#39;', "'")
  try {
    return (JSON.parse(text) as { error: { message: string } }).error.message
  } catch {
    return 'The workspace did not answer'
  }
}

/** The local connection closes after the body, so its headers are replaced. */
function closing(raw: readonly string[]): string[] {
  const kept = raw.flatMap((each, at) => (at % 2 === 0 && !HOP.has(each.toLowerCase()) ? [each, raw[at + 1] ?? ''] : []))
  return [...kept, 'Connection', 'close']
}

const HOP: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding'])

function withoutHost({ host: _other, ...headers }: IncomingHttpHeaders): IncomingHttpHeaders {
  return headers
}

function pairsOf(raw: readonly string[]): string {
  return raw.map((each, at) => (at % 2 === 0 ? `${each}: ` : `${each}\r\n`)).join('')
}

/** Resolves names below `.localhost` here, because not every resolver does. */
const named: LookupFunction = (host, options, found) => {
  if (host.endsWith('.localhost')) return options.all ? found(null, [{ address: '127.0.0.1', family: 4 }]) : found(null, '127.0.0.1', 4)
  lookup(host, options, found)
}
