import type { filesWrite } from '../../../../contract/routes/cell/files.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { WriteResult } from '../../../../contract/schemas/cell/file.ts'
import type { Call } from '../../../http/call.ts'
import { drainBody } from '../../../http/drain.ts'
import type { WriteOptions } from '../../host/agent-asked.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { callAgent } from '../ask.ts'
import type { MachineCallLease } from '../../admission/call-lease.ts'
import type { GatewayHandler } from '../handler.ts'
import { keyOf } from './key.ts'
import { checkMode, pathOf } from './path.ts'
import { tooLarge, WriteBody } from './write-body.ts'

type WriteCall = Call<typeof filesWrite>

interface Write {
  path: string
  options: WriteOptions
  content_length: number | undefined
  key: string | null
}

export const writeFile: GatewayHandler<typeof filesWrite> = async (call, _deps, ticket) => {
  try {
    return { status: 200, body: await run(call, ticket, writeOf(call)) }
  } catch (error) {
    await drainBody(call.body_stream)
    throw error
  }
}

function writeOf(call: WriteCall): Write {
  const { append = false, create_parents = false, mode } = call.query
  const length = call.headers['content-length']
  const write = {
    path: pathOf(call.body_stream.url ?? ''),
    options: { append, create_parents, ...checkMode(mode) },
    content_length: length === undefined ? undefined : Number(length),
    key: keyOf(call.named_headers),
  }
  if (write.content_length !== undefined && write.content_length > LIMITS.file.write_bytes_max) throw tooLarge()
  return write
}

/** The agent writes the file only once it has received the whole body. It outlives the gateway, so it stores the keys. */
async function run(call: WriteCall, ticket: MachineCallLease, { path, options, content_length, key }: Write): Promise<WriteResult> {
  const body = new WriteBody({ digested: key !== null })
  const broken = new AbortController()
  body.on('error', (error) => broken.abort(error))
  const signal = AbortSignal.any([call.signal, broken.signal])
  try {
    call.body_stream.pipe(body)
    return await callAgent(ticket, 'change', { signal }, async (bounds) => {
      const result = await ticket.agent.writeFile(path, options, body, { content_length, key }, bounds)
      if (body.saw(result)) return result
      throw new AgentFailure('nonsense', 'The agent acknowledged other bytes than it was sent')
    })
  } finally {
    call.body_stream.unpipe(body)
    body.destroy()
  }
}
