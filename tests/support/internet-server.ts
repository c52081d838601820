// `internet-server.ts FOLDER` prints a line for each request, and ends with its stdin.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import path from 'node:path'

const [folder = ''] = process.argv.slice(2)
const SECRET = `Basic ${Buffer.from('anyone:s3cret-token').toString('base64')}`
const PAGES: Record<string, string> = {
  '/page': '<!doctype html><title>A page</title><h1>Hello</h1><script>document.body.append("made by a script")</script>',
}

function serve(request: IncomingMessage, response: ServerResponse): void {
  const url = request.url ?? '/'
  const authorization = request.headers.authorization ?? null
  process.stdout.write(`${JSON.stringify({ url, host: request.headers.host ?? '', authorization })}\n`)
  const page = PAGES[url.replace(/\?.*/, '')]
  if (page !== undefined) return void response.writeHead(200, { 'content-type': 'text/html' }).end(page)
  if (url.startsWith('/slow/')) return // never answered
  if (url === '/sink') return void request.resume() // never answered; the body is read
  if (url.startsWith('/trickle/')) return trickle(response, Number(url.slice('/trickle/'.length)))
  if (url.startsWith('/elsewhere/')) {
    return void response.writeHead(302, { location: `https://203.0.113.11${url.slice('/elsewhere'.length)}` }).end()
  }
  if (url.startsWith('/private/') && authorization !== SECRET) {
    return void response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
  }
  repository(request, response, url)
}

/** Sends 400 bytes a second in two pieces, catching up if late. The connection then stays open. */
function trickle(response: ServerResponse, times: number): void {
  const began_ms = performance.now()
  let sent = 0
  const timer = setInterval(() => {
    const due = Math.min(Math.floor((performance.now() - began_ms) / 500), times)
    if (due > sent) response.write(Buffer.alloc(200 * (due - sent)))
    sent = due
    if (due === times) clearInterval(timer)
  }, 500)
  response.on('close', () => clearInterval(timer))
}

function repository(request: IncomingMessage, response: ServerResponse, url: string): void {
  const [pathname = '', query = ''] = url.replace(/^\/private/, '').split('?')
  const backend = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      PATH_INFO: pathname,
      QUERY_STRING: query,
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'],
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'],
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  request.pipe(backend.stdin).on('error', () => undefined) // the program may not read all of it
  const chunks: Buffer[] = []
  backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  backend.stdout.on('end', () => {
    const answer = Buffer.concat(chunks)
    const end = answer.indexOf('\r\n\r\n')
    const fields = answer.subarray(0, end).toString().split('\r\n')
    const headers = fields.map((line) => line.split(': ') as [string, string])
    const status = headers.find(([name]) => name === 'Status')?.[1] ?? '200'
    response.writeHead(parseInt(status), Object.fromEntries(headers.filter(([name]) => name !== 'Status')))
    response.end(answer.subarray(end + 4))
  })
}

const tls = { cert: readFileSync(path.join(folder, 'cert.pem')), key: readFileSync(path.join(folder, 'key.pem')) }
http.createServer(serve).listen(80, '0.0.0.0', () => {
  https.createServer(tls, serve).listen(443, '0.0.0.0', () => process.stdout.write('ready\n'))
})
process.stdin.resume().on('end', () => process.exit(0))
