import type { LiveMachine } from '../host/live-machine.ts'

/** Counts this process's own calls to a guest, which are no use by the tenant. */
export interface AgentCallCounter {
  of(machine: LiveMachine): AgentCallCounts
  counted<T>(ask: (machine: LiveMachine) => Promise<T>): (machine: LiveMachine) => Promise<T>
}

export interface AgentCallCounts {
  begun: number
  ended: number
}

const MACHINES_MAX = 20_000

export function createAgentCallCounter(): AgentCallCounter {
  const asked = new Map<string, AgentCallCounts>()
  return {
    of: ({ agent_key }) => ({ ...(asked.get(agent_key) ?? { begun: 0, ended: 0 }) }),
    counted: (ask) => async (machine) => {
      const count = asked.get(machine.agent_key) ?? { begun: 0, ended: 0 }
      asked.set(machine.agent_key, count)
      const [oldest] = asked.keys()
      if (asked.size > MACHINES_MAX && oldest !== undefined) asked.delete(oldest)
      count.begun += 1
      try {
        return await ask(machine)
      } finally {
        count.ended += 1
      }
    },
  }
}
