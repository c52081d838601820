import type { HostEvent, Machine } from '../../../contract/internal/host-inventory.ts'
import { type OpenLink, openLink } from './agent.ts'
import { subjectName } from './subject.ts'

/**
 * Links to machines of executions and builds, which the table of machines does not contain. A link ends with its machine, because another
 * tenant's machine may get the address. That machine must receive no call, and its answers must not be trusted.
 */
export interface GuestLinks {
  open(machine: Machine): OpenLink
  died(event: Death): void
  /** Called before the host lists its machines. @returns a function that ends the links to machines that the list lacks */
  comparing(): (machines: readonly Named[]) => void
}

type Named = Pick<Machine, 'subject' | 'fence'>
type Death = Pick<HostEvent, 'subject' | 'fence' | 'at'>

/** The number of deaths that are stored: the host may report a death before the call that started the machine has returned. */
const DEATHS_MAX = 1000

export function createGuestLinks(open = openLink): GuestLinks {
  const links = new Set<{ machine: Machine; close(): void }>()
  const deaths = new Map<string, string>()
  return {
    open(machine) {
      const { link, close } = open(machine)
      const opened = { machine, close: () => (links.delete(opened), close()) }
      links.add(opened)
      const died_at = deaths.get(nameOf(machine))
      if (died_at !== undefined && isOf(machine, died_at)) opened.close()
      return { link, close: opened.close }
    },
    died(event) {
      const name = nameOf(event)
      deaths.set(name, event.at)
      for (const first of deaths.keys()) {
        if (deaths.size <= DEATHS_MAX) break
        deaths.delete(first)
      }
      for (const opened of links) if (nameOf(opened.machine) === name && isOf(opened.machine, event.at)) opened.close()
    },
    comparing() {
      const before = [...links]
      return (machines) => {
        const there = new Set(machines.map(nameOf))
        for (const opened of before) if (!there.has(nameOf(opened.machine))) opened.close()
      }
    },
  }
}

function nameOf({ subject, fence }: Named): string {
  return `${subjectName(subject)} ${fence}`
}

/** Machines of one build attempt share a fencing token, so their times distinguish them. Both times are from the host's clock. */
function isOf({ started_at }: Machine, died_at: string): boolean {
  return started_at <= died_at
}
