import { readBytes } from './agent-answer.ts'
import { fileCalls } from './agent-file-calls.ts'
import { AGENT_DEADLINES, type AgentConnections, type AgentDeadlines, type AgentEndpoint, openConnections } from './agent-http.ts'
import type { AgentLink } from './agent-link.ts'
import { linkOf } from './agent-protocol.ts'
import { commandCalls, terminalCalls } from './agent-run-calls.ts'
import { toolCalls } from './agent-tool-calls.ts'
import { CALL_BYTES, UNLIMITED_BUDGET } from './buffer-budget.ts'
import type { LiveMachine } from './live-machine.ts'
import { createStartedStreams } from './started-streams.ts'

export interface AgentLinks {
  /** The link to a machine in one epoch. `gone` ends its connections, because the next machine may have the same address. */
  of(workspace_id: string, machine: LiveMachine, gone: AbortSignal): AgentLink
  /** Opens a connection in advance for the first call. Never fails: that call reports the problem. */
  greet(workspace_id: string, machine: LiveMachine, gone: AbortSignal): void
  close(): void
}

export interface OpenLink {
  link: AgentLink
  close(): void
}

export function openLink(machine: AgentEndpoint, deadlines: AgentDeadlines = AGENT_DEADLINES): OpenLink {
  const connections = openConnections(machine, deadlines)
  return { link: linkOf(createLink(connections, deadlines), machine.agent_protocol), close: connections.end }
}

export function createAgentLinks(deadlines: AgentDeadlines = AGENT_DEADLINES): AgentLinks {
  const open = new Map<string, { place: string; machine: string; link: AgentLink; connections: AgentConnections }>()
  const end = (epoch: string) => {
    open.get(epoch)?.connections.end()
    open.delete(epoch)
  }
  const to = (workspace_id: string, machine: LiveMachine, gone: AbortSignal) => {
    const epoch = `${workspace_id} ${machine.epoch}`
    const place = `${machine.fence} ${machine.address}`
    const name = `${place} ${machine.stood_still}`
    const known = open.get(epoch)
    if (known?.machine === name) return known
    // No call used the machine during its pause. Either side may have dropped the idle connections, which only the next call would notice, so
    // they are closed.
    if (known?.place === place) known.connections.close()
    else known?.connections.end()
    const connections = openConnections(machine, deadlines)
    const link = linkOf(createLink(connections, deadlines), machine.agent_protocol)
    const made = { place, machine: name, link, connections }
    open.set(epoch, made)
    if (gone.aborted) end(epoch)
    else if (known === undefined) gone.addEventListener('abort', () => end(epoch), { once: true })
    return made
  }
  return {
    of: (workspace_id, machine, gone) => to(workspace_id, machine, gone).link,
    greet(workspace_id, machine, gone) {
      to(workspace_id, machine, gone)
        .connections.send({ method: 'GET', path: '/incarnation', safe: true, signal: gone })
        .then((response) => readBytes(response, CALL_BYTES, { signal: gone, room: UNLIMITED_BUDGET }))
        .catch(() => undefined)
    },
    close: () => [...open.keys()].forEach(end),
  }
}

function createLink(connections: AgentConnections, deadlines: AgentDeadlines): AgentLink {
  const route = { connections, deadlines, started: createStartedStreams() }
  return { ...commandCalls(route), ...terminalCalls(route), ...fileCalls(route), ...toolCalls(route) }
}
