import { Agent, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import httpProxy from 'http-proxy'
import { serveUntilTold } from './child.ts'

const proxy = httpProxy.createProxyServer({ target: process.argv[2] ?? '', agent: new Agent({ keepAlive: true }), ws: true, xfwd: true })
const server = createServer((request, response) => proxy.web(request, response))
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
await serveUntilTold({ address: `127.0.0.1:${(server.address() as AddressInfo).port}` })
process.exit(0)
