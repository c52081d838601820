import { request } from 'node:http'
import { LIMITS } from '../../../contract/limits.ts'
import type { LiveMachine } from '../host/live-machine.ts'

const DEADLINE_MS = 2000
const ALIVE_DEADLINE_MS = 1000
const ANSWER_BYTES_MAX = 16 << 10

export interface BusyCommand {
  session_id: string
  started_at: Date
  busy_until: Date
}

export interface GuestActivity {
  /** Includes commands that no longer postpone idle suspend. */
  running: number
  /** null: no running command postpones idle suspend. */
  busy_until: Date | null
  last_ended_at: Date | null
  commands: BusyCommand[]
}

export type AskActivity = (machine: LiveMachine) => Promise<GuestActivity | null>

/** The guest is not trusted: an invalid answer counts as no running command, so it can prevent neither parking nor suspending. */
export const queryActivity: AskActivity = async (machine) => {
  const said = await get(machine).catch(() => null) // the liveness probe finds out whether the machine is alive
  return said === null ? null : activityOf(parsed(said))
}

function parsed(said: string): unknown {
  try {
    return JSON.parse(said)
  } catch {
    return null
  }
}

export type AskAlive = (machine: LiveMachine) => Promise<boolean>

export const probeLiveness: AskAlive = (machine) =>
  get(machine, ALIVE_DEADLINE_MS).then(
    () => true,
    () => false,
  )

const COMMANDS_MAX = 16
const SESSION_ID = new RegExp(`^[A-Za-z0-9._:-]{1,${LIMITS.exec.session_id_characters_max}}$`)

const NOTHING_RUNS: GuestActivity = { running: 0, busy_until: null, last_ended_at: null, commands: [] }

function activityOf(answer: unknown): GuestActivity {
  if (typeof answer !== 'object' || answer === null) return NOTHING_RUNS
  const { running_sessions, busy_until, last_ended_at, commands } = answer as Record<string, unknown>
  const listed = Array.isArray(commands) ? commands.slice(0, COMMANDS_MAX) : []
  const running = typeof running_sessions === 'number' && running_sessions > 0 ? running_sessions : 0
  return { running, busy_until: dateOf(busy_until), last_ended_at: dateOf(last_ended_at), commands: listed.flatMap(commandOf) }
}

function commandOf(said: unknown): BusyCommand[] {
  if (typeof said !== 'object' || said === null) return []
  const { session_id, ...times } = said as Record<string, unknown>
  const [started_at, busy_until] = [dateOf(times['started_at']), dateOf(times['busy_until'])]
  const named = typeof session_id === 'string' && SESSION_ID.test(session_id)
  return named && started_at !== null && busy_until !== null ? [{ session_id, started_at, busy_until }] : []
}

function dateOf(text: unknown): Date | null {
  const date = new Date(typeof text === 'string' ? text : Number.NaN)
  return Number.isNaN(date.getTime()) ? null : date
}

function get({ address, agent_key, epoch }: LiveMachine, deadline_ms = DEADLINE_MS): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const headers = { authorization: `Bearer ${agent_key}`, 'x-berth-epoch': String(epoch) }
  const outgoing = request(`http://${address}/activity`, { headers, agent: false }, (answer) => {
    let text = ''
    answer.setEncoding('utf8')
    answer.on('data', (chunk: string) => {
      text += chunk
      if (text.length <= ANSWER_BYTES_MAX) return
      resolve('') // '' is an invalid answer
      outgoing.destroy()
    })
    answer.on('end', () => resolve(text))
    answer.on('error', reject)
  })
  const deadline = setTimeout(() => outgoing.destroy(new Error('No answer')), deadline_ms)
  outgoing.on('error', reject)
  outgoing.end()
  return promise.finally(() => clearTimeout(deadline))
}
