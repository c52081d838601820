import { pipeline } from 'node:stream/promises'
import type { filesWrite } from '../../../../contract/routes/cell/files.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { WriteResult } from '../../../../contract/schemas/cell/file.ts'
import type { Call } from '../../../http/call.ts'
import { fail, Failure } from '../../../lib/fail.ts'
import type { WriteOptions } from '../../links/agent.ts'
import { AgentTrouble } from '../../links/agent-trouble.ts'
import { ask } from '../ask.ts'
import type { Ticket } from '../gate/gate.ts'
import type { GatewayHandler } from '../handler.ts'
import { checkMode, pathOf } from './path.ts'
import { swallow, tooLarge, WriteBody } from './write-body.ts'
import type { Outcome, WriteMemory } from './write-memory.ts'

type WriteCall = Call<typeof filesWrite>

interface Write {
  path: string
  options: WriteOptions
  content_length: number | undefined
}

export const writeFile: GatewayHandler<typeof filesWrite> = async (call, { writes }, ticket) => {
  try {
    const write = writeOf(call)
    const key = keyOf(call)
    const body = key === null ? await run(call, ticket, write, new WriteBody()) : await runOnce(call, ticket, write, key, writes)
    return { status: 200, body }
  } catch (error) {
    await swallow(call.body_stream)
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
  }
  if (write.content_length !== undefined && write.content_length > LIMITS.file_write_bytes_max) throw tooLarge()
  return write
}

const KEY = new RegExp(`^[A-Za-z0-9._:-]{1,${LIMITS.file_idempotency_key_characters_max}}$`)

function keyOf(call: WriteCall): string | null {
  const key = call.headers['idempotency-key']
  if (key === undefined) return null
  if (typeof key === 'string' && KEY.test(key)) return key
  throw fail('bad_request', null, 'The Idempotency-Key must be 1-100 characters of A-Z a-z 0-9 . _ : -', {
    details: { field: 'Idempotency-Key' },
  })
}

/** Carries the body to the agent as it comes; the agent writes nothing before all of it is there. */
async function run(call: WriteCall, ticket: Ticket, { path, options, content_length }: Write, body: WriteBody): Promise<WriteResult> {
  const broken = new AbortController()
  body.on('error', (error) => broken.abort(error))
  const signal = AbortSignal.any([call.signal, broken.signal])
  try {
    call.body_stream.pipe(body)
    return await ask(ticket, 'change', async () => {
      const result = await ticket.agent.writeFile(path, options, body, content_length, signal)
      if (body.saw(result)) return result
      throw new AgentTrouble('nonsense', 'The agent acknowledged other bytes than it was sent')
    })
  } finally {
    call.body_stream.unpipe(body)
    body.destroy()
  }
}

/** Cell, File rules 1: the same key with the same request is answered, not written, again. */
async function runOnce(call: WriteCall, ticket: Ticket, write: Write, key: string, writes: WriteMemory): Promise<WriteResult> {
  const request = JSON.stringify([write.path, write.options])
  const once = await writes.once(`${ticket.entry.id} ${key}`, request, async (): Promise<Outcome> => {
    try {
      const result = await run(call, ticket, write, new WriteBody({ digested: true }))
      return { kind: 'written', sha256: result.sha256, result }
    } catch (error) {
      // Replacing again does no harm; appending again what may have been appended would double it.
      if (write.options.append && error instanceof Failure && error.reason === 'operation_interrupted')
        return { kind: 'interrupted', failure: error }
      throw error
    }
  })
  if (once.request !== request) throw reused()
  if (once.outcome.kind === 'interrupted') throw once.outcome.failure
  if (!once.ran && (await digestOf(call)) !== once.outcome.sha256) throw reused()
  return once.outcome.result
}

async function digestOf(call: WriteCall): Promise<string> {
  const body = new WriteBody({ digested: true })
  await pipeline(call.body_stream, body.resume(), { signal: call.signal })
  return body.sha256()
}

function reused(): Failure {
  return fail('conflict', 'operation_id_reused', 'The Idempotency-Key was used for a different write')
}
