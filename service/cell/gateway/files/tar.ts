import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { filesTarRead, filesTarWrite } from '../../../../contract/routes/cell/tar.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { drainBody } from '../../../http/drain.ts'
import { tarTooLarge } from './tar-too-large.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { endWhenIdle } from '../end-when-idle.ts'
import { AtMost } from './at-most.ts'
import { pathOf } from './path.ts'

const HEADERS = { 'content-type': 'application/x-tar', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }

export const readTar: GatewayHandler<typeof filesTarRead> = async (call, { agent_idle_ms }, ticket) => {
  const path = pathOf(call.url)
  const { sparse = true } = call.query
  const tar = await callAgent(ticket, 'read', call, (bounds) => ticket.agent.openTar(path, { sparse }, bounds))
  return {
    async stream(response) {
      response.writeHead(200, HEADERS)
      endWhenIdle(tar, response, ticket, agent_idle_ms)
      // A failure destroys the response, so that the reader does not mistake a part for the whole.
      await pipeline(tar, new AtMost(LIMITS.tar.download_bytes_max), response).catch(() => undefined)
    },
  }
}

export const writeTar: GatewayHandler<typeof filesTarWrite> = async (call, _deps, ticket) => {
  try {
    const path = pathOf(call.url)
    const { create_parents = false, links_out = false } = call.query
    const length = call.headers['content-length']
    const content_length = length === undefined ? undefined : Number(length)
    const bytes_max = LIMITS.tar.upload_bytes_max
    if (content_length !== undefined && content_length > bytes_max) throw tarTooLarge(bytes_max)
    return {
      status: 200,
      body: await carry(call.body_stream, (body, signal) =>
        callAgent(ticket, 'change', { signal: AbortSignal.any([call.signal, signal]) }, (bounds) =>
          ticket.agent.writeTar(path, { create_parents, links_out }, body, content_length, bounds),
        ),
      ),
    }
  } catch (error) {
    await drainBody(call.body_stream)
    throw error
  }
}

async function carry<T>(from: Readable, work: (body: Readable, broken: AbortSignal) => Promise<T>): Promise<T> {
  const bytes_max = LIMITS.tar.upload_bytes_max
  const body = new AtMost(bytes_max, () => tarTooLarge(bytes_max))
  const broken = new AbortController()
  body.on('error', (error) => broken.abort(error))
  try {
    from.pipe(body)
    return await work(body, broken.signal)
  } finally {
    from.unpipe(body)
    body.destroy()
  }
}
