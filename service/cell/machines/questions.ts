import type { LiveMachine } from './table.ts'

/** How often this process itself asked each machine's agent: that is not the guest's own use of processor and network. */
export interface Questions {
  of(machine: LiveMachine): number
  /** The same question, counted. */
  counted<T>(ask: (machine: LiveMachine) => Promise<T>): (machine: LiveMachine) => Promise<T>
}

const MACHINES_MAX = 20_000

export function createQuestions(): Questions {
  const asked = new Map<string, number>()
  return {
    of: ({ agent_key }) => asked.get(agent_key) ?? 0,
    counted: (ask) => (machine) => {
      asked.set(machine.agent_key, (asked.get(machine.agent_key) ?? 0) + 1)
      const [oldest] = asked.keys()
      if (asked.size > MACHINES_MAX && oldest !== undefined) asked.delete(oldest)
      return ask(machine)
    },
  }
}
