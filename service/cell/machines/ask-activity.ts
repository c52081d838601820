import { request } from 'node:http'
import type { LiveMachine } from './table.ts'

const DEADLINE_MS = 2000
const ANSWER_BYTES_MAX = 4096

/** Until when commands that run in the guest keep it from idle suspend; null: none do, as far as the guest says. */
export type AskActivity = (machine: LiveMachine) => Promise<Date | null>

/**
 * Asks the machine's agent. Nothing that it says is trusted: an answer that is not one, or none within two seconds, counts as
 * "not busy", so that a broken guest cannot keep itself from being suspended.
 */
export const askActivity: AskActivity = async (machine) => {
  try {
    return busyUntil(JSON.parse(await get(machine)))
  } catch {
    return null // see above
  }
}

function busyUntil(answer: unknown): Date | null {
  if (typeof answer !== 'object' || answer === null || !('busy_until' in answer) || typeof answer.busy_until !== 'string') return null
  const until = new Date(answer.busy_until)
  return Number.isNaN(until.getTime()) ? null : until
}

function get({ address, agent_key, epoch }: LiveMachine): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const headers = { authorization: `Bearer ${agent_key}`, 'x-berth-epoch': String(epoch) }
  const outgoing = request(`http://${address}/activity`, { headers, agent: false }, (answer) => {
    let text = ''
    answer.setEncoding('utf8')
    answer.on('data', (chunk: string) => {
      text += chunk
      if (text.length > ANSWER_BYTES_MAX) outgoing.destroy(new Error('The answer is too long'))
    })
    answer.on('end', () => resolve(text))
    answer.on('error', reject)
  })
  const deadline = setTimeout(() => outgoing.destroy(new Error('No answer')), DEADLINE_MS)
  outgoing.on('error', reject)
  outgoing.end()
  return promise.finally(() => clearTimeout(deadline))
}
