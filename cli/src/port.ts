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
  const server = await forward(ws, number, Number(flags['local'] ?? 0))
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  print(at)
  say(`${at} is port ${number} of ${name}. Ctrl-C ends it.`)
  await new Promise<void>((resolve) => void process.once('SIGINT', resolve).once('SIGTERM', resolve))
  server.closeAllConnections()
  server.close()
  return 0
}

/** A server of this computer whose requests are the workspace's. */
async function forward(ws: Workspace, port: number, local: number): Promise<http.Server> {
  let token = await ws.ports.token(port, { ttl_seconds: TOKEN_SECONDS })
  const renew = setInterval(
    () => {
      ws.ports.token(port, { ttl_seconds: TOKEN_SECONDS }).then(
        (next) => (token = next),
        () => undefined, // the next turn tries again, before the one that is there ends
      )
    },
    (TOKEN_SECONDS * 1000) / 3,
  )
  renew.unref()
  const ask = ({ method, url, headers }: IncomingMessage) => {
    const place = new URL(token.url)
    const options = { method, path: url, headers: { ...passed(headers), host: place.host, 'x-service-token': token.token }, lookup: named }
    return (place.protocol === 'https:' ? https : http).request(place.origin, options)
  }
  const server = http.createServer((request, response) => {
    const asked = ask(request)
    asked.on('response', (answer) => {
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
    asked.on('response', () => socket.destroy())
    asked.on('error', () => socket.destroy())
    asked.end()
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new CliError(`Port ${local} is not free here: ${error.message}`)))
    server.listen(local, '127.0.0.1', resolve)
  })
  return server
}

function passed({ host: _other, ...headers }: IncomingHttpHeaders): IncomingHttpHeaders {
  return headers
}

function pairsOf(raw: readonly string[]): string {
  return raw.map((each, at) => (at % 2 === 0 ? `${each}: ` : `${each}\r\n`)).join('')
}

/** Names below localhost are this computer, which not every resolver knows. */
const named: LookupFunction = (host, options, found) => {
  if (host.endsWith('.localhost')) return options.all ? found(null, [{ address: '127.0.0.1', family: 4 }]) : found(null, '127.0.0.1', 4)
  lookup(host, options, found)
}
