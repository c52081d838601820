import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { ExecRequest } from '../../../contract/internal/agent-runs.ts'
import { ExecSession, ExecStdin } from '../../../contract/schemas/cell/session.ts'
import { TerminalSession } from '../../../contract/schemas/cell/terminal.ts'
import { type CallBounds, readJson, shape, within } from './agent-answer.ts'
import { ask, download, get, json, LIST, post, query, RECORD, refusalOf, stream, type AgentRoute } from './agent-calls.ts'
import { parseAnswer } from './agent-json.ts'
import type { AgentLink, Answer } from './agent-link.ts'
import { commandList, terminalList } from './agent-shapes.ts'
import { readStarted } from './started.ts'

const FRAMES_TYPE = 'application/octet-stream'

const session = shape(ExecSession)
const stdin = shape(ExecStdin)
const terminal = shape(TerminalSession)

export function commandCalls(
  route: AgentRoute,
): Pick<AgentLink, 'startExec' | 'listExecs' | 'getExec' | 'signalExec' | 'cancelExec' | 'writeStdin' | 'openOutput'> {
  return {
    startExec: (exec, bounds) => startExec(route, exec, bounds),
    listExecs: (asked, bounds) => get(route, `/exec?${query({ ...asked })}`, commandList, bounds, LIST),
    getExec: (id, bounds) => get(route, commandPath(id), session, bounds),
    signalExec: (id, signal, bounds) => post(route, `${commandPath(id)}/signal`, { signal }, session, bounds),
    cancelExec: (id, bounds) => post(route, `${commandPath(id)}/cancel`, {}, session, bounds),
    async writeStdin(id, part, bytes, bounds) {
      // Repeatable, because the agent does not write bytes below its offset again.
      const asked = { method: 'POST', path: `${commandPath(id)}/stdin?${query({ ...part })}`, safe: true, body: bytes } as const
      return (await ask(route, asked, stdin, bounds)).body
    },
    openOutput: (id, from, bounds) => openOutput(route, id, from, bounds),
  }
}

/**
 * Repeatable, because the agent starts a session id once. A caller usually follows the command it starts, so its output comes with the
 * answer, and openOutput finds it.
 */
async function startExec(route: AgentRoute, exec: ExecRequest, bounds: CallBounds): Promise<Answer<ExecSession>> {
  const path = route.started.open() ? '/exec?follow=true' : '/exec'
  const due_ms = performance.now() + route.deadlines.answer_ms
  const response = await stream(route, { method: 'POST', path, safe: true, body: json(exec) }, bounds)
  const status = response.statusCode ?? 0
  const within_ms = due_ms - performance.now()
  if (response.headers['content-type'] !== FRAMES_TYPE) {
    const said = await within(response, within_ms, () => readJson(response, RECORD, bounds))
    return { status, body: session.parse(said) }
  }
  const body = await within(response, within_ms, () => readStarted(response, (record) => session.parse(parseAnswer(record))))
  route.started.keep(exec.session_id, response)
  return { status, body }
}

async function openOutput(
  route: AgentRoute,
  id: string,
  from: { stdout_offset: number; stderr_offset: number; follow: boolean },
  bounds: CallBounds,
): Promise<IncomingMessage> {
  const begun = from.follow && from.stdout_offset === 0 && from.stderr_offset === 0 ? route.started.take(id) : undefined
  return begun ?? download(route, `${commandPath(id)}/output?${query({ ...from })}`, bounds)
}

export function terminalCalls(
  route: AgentRoute,
): Pick<
  AgentLink,
  'openTerminal' | 'listTerminals' | 'getTerminal' | 'closeTerminal' | 'resizeTerminal' | 'typeIntoTerminal' | 'attachTerminal'
> {
  return {
    openTerminal: (asked, bounds) => ask(route, { method: 'POST', path: '/pty', safe: true, body: json(asked) }, terminal, bounds),
    listTerminals: (asked, bounds) => get(route, `/pty?${query({ ...asked })}`, terminalList, bounds, LIST),
    getTerminal: (id, bounds) => get(route, terminalPath(id), terminal, bounds),
    closeTerminal: async (id, bounds) =>
      (await ask(route, { method: 'DELETE', path: terminalPath(id), safe: true }, terminal, bounds)).body,
    resizeTerminal: (id, size, bounds) => post(route, `${terminalPath(id)}/resize`, size, terminal, bounds),
    typeIntoTerminal: (id, data, bounds) => post(route, `${terminalPath(id)}/input`, { data }, terminal, bounds),
    attachTerminal: (id, offset, bounds) => attachTerminal(route, id, offset, bounds),
  }
}

async function attachTerminal({ connections }: AgentRoute, id: string, offset: number, bounds: CallBounds): Promise<Socket> {
  const path = `${terminalPath(id)}/attach?${query({ offset })}`
  const asked = { method: 'POST', path, safe: true, signal: bounds.signal, upgrade: 'berth-frames' } as const
  const { response, socket } = await connections.switch(asked)
  if (socket !== null) return socket
  throw await refusalOf(response, response.statusCode ?? 0, bounds)
}

function commandPath(id: string): string {
  return `/exec/${encodeURIComponent(id)}`
}

function terminalPath(id: string): string {
  return `/pty/${encodeURIComponent(id)}`
}
