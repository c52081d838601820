import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { generatorOf, testSeed } from './seed.ts'

export interface CuttingProxy {
  url: string
  /** Printed with a failure: the same seed cuts at the same byte counts. */
  seed: number
  cuts(): number
  stopCutting(): void
  close(): void
}

export async function openCuttingProxy(target: string, options: { bytes_max: number; seed?: number }): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target)
  const seed = options.seed ?? testSeed(process.env['BERTH_TEST_SEED'] ?? 'random')
  const random = generatorOf(seed)
  const sockets = new Set<Socket>()
  let cuts = 0
  let cutting = true
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    let left = cutting ? 1 + Math.floor(random() * options.bytes_max) : Number.POSITIVE_INFINITY
    const cut = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', cut).on('close', () => {
        sockets.delete(socket)
        cut()
      })
    }
    client.pipe(upstream)
    upstream.on('data', (chunk: Buffer) => {
      if (chunk.length < left) {
        left -= chunk.length
        if (!client.write(chunk)) upstream.pause()
        return
      }
      cuts += 1
      upstream.pause()
      client.write(chunk.subarray(0, left), cut)
    })
    client.on('drain', () => upstream.resume())
    upstream.on('end', () => client.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seed,
    cuts: () => cuts,
    stopCutting: () => (cutting = false),
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
