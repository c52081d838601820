import { randomUUID } from 'node:crypto'
import { ndjson, send, type OutputEvent } from '../support/client.ts'
import { renew, type Actor } from './open.ts'
import type { Believed } from './model.ts'
import { patience } from '../support/patience.ts'

export interface Ran {
  session_id: string
  stdout: string
  exit_code: number | null
}

const PATIENCE_MS = 45_000
const CALL_MS = 20_000

/**
 * Runs a command exactly once despite failures. Reports gaps, and a second read that differs.
 * @returns null if the workspace does not run or its machine died
 */
export async function runOnce(actor: Actor, seen: Believed, argv: (session_id: string) => string[]): Promise<Ran | null> {
  const session_id = `chaos-${randomUUID()}`
  const { deaths } = seen
  const ends_ms = performance.now() + patience(PATIENCE_MS)
  const json = { session_id, argv: argv(session_id) }
  if (!(await started(actor, seen, json, ends_ms))) return null
  const read: Reading = { bytes: Buffer.alloc(0), exit: null }
  while (performance.now() < ends_ms && deaths === seen.deaths) {
    const went_on = await follow(actor, seen, session_id, read).catch(() => true) // the connection was cut
    if (!went_on) return null
    if (read.exit !== null) break
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  if (read.exit === null || deaths !== seen.deaths) return null
  await readAgain(actor, seen, session_id, read.bytes)
  return { session_id, stdout: read.bytes.toString(), exit_code: read.exit['exit_code'] as number | null }
}

interface Reading {
  bytes: Buffer
  exit: OutputEvent | null
}

const urlOf = (seen: Believed, rest: string) => `${seen.endpoint}/v1/workspaces/${seen.id}/exec${rest}`

async function started(actor: Actor, seen: Believed, json: object, ends_ms: number): Promise<boolean> {
  for (; performance.now() < ends_ms; await new Promise((resolve) => setTimeout(resolve, 200))) {
    const answer = await actor.caller.tool(urlOf(seen, ''), { method: 'POST', token: seen.token, json })
    if (answer?.status === 201 || answer?.status === 200) return true
    await renew(actor, seen, answer)
    if (answer !== null && answer.status < 500) return false
  }
  return false
}

/** @returns false if there is nothing more to read */
async function follow(actor: Actor, seen: Believed, session_id: string, read: Reading): Promise<boolean> {
  const url = urlOf(seen, `/${session_id}/output?stdout_offset=${read.bytes.length}`)
  const response = await send(url, { token: seen.token, signal: AbortSignal.timeout(CALL_MS) })
  if (response.statusCode !== 200) {
    response.resume()
    actor.history.count(`output_${response.statusCode ?? 0}`)
    return (response.statusCode ?? 0) >= 500
  }
  for await (const event of ndjson(response)) {
    if (event.type === 'exit') read.exit = event
    if (event.type !== 'output' || event.stream !== 'stdout') continue
    if (event.offset !== read.bytes.length)
      actor.history.violate('N6: output has a gap or a repeat', { id: seen.id, session_id, at: event.offset, expected: read.bytes.length })
    read.bytes = Buffer.concat([read.bytes, Buffer.from(event.data ?? '', 'base64')])
  }
  return true
}

async function readAgain(actor: Actor, seen: Believed, session_id: string, known: Buffer): Promise<void> {
  const { deaths } = seen
  const from = Math.floor(actor.random.next() * known.length)
  const url = urlOf(seen, `/${session_id}/output?follow=false&stdout_offset=${from}`)
  const answer = await actor.caller.tool(url, { token: seen.token })
  if (answer?.status !== 200 || deaths !== seen.deaths) return
  const lines = answer.bytes.toString().split('\n').filter((line) => line !== '') // prettier-ignore
  const events = lines.map((line) => JSON.parse(line) as OutputEvent)
  if (events.some(({ type }) => type === 'error')) return
  const again = Buffer.concat(events.filter(({ stream }) => stream === 'stdout').map(({ data }) => Buffer.from(data ?? '', 'base64')))
  if (!again.equals(known.subarray(from)))
    actor.history.violate('N6: output is another when it is read again', { id: seen.id, session_id, from })
}
