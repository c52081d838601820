import { fail } from '../../lib/fail.ts'
import type { AgentLink } from './agent.ts'

/** machine/internal/wire/agent.go: AgentProtocolMin and AgentProtocol. hostd lets no machine run whose agent speaks anything else. */
export const AGENT_PROTOCOLS = { oldest: 1, current: 9 } as const

/** Since which protocol an agent knows a call; those that do not stand here it has always known. */
const SINCE: Partial<Record<keyof AgentLink, number>> = {
  openTerminal: 2,
  getTerminal: 2,
  closeTerminal: 2,
  resizeTerminal: 2,
  typeIntoTerminal: 2,
  attachTerminal: 2,
  searchFiles: 2,
  beginSearch: 2,
  patchFile: 2,
  listChanges: 2,
  readFacts: 9,
  listProcesses: 2,
  signalProcess: 2,
  cloneRepository: 2,
  gitStatus: 2,
  commitChanges: 2,
  openBrowser: 2,
  openTar: 5,
  writeTar: 5,
  writeStdin: 6,
  openWatch: 8,
}

/** The link to an agent of an older protocol, which lives on in the memory of its workspace: what it does not know is refused unasked. */
export function linkOf(link: AgentLink, protocol: number): AgentLink {
  if (protocol >= AGENT_PROTOCOLS.current) return link
  const unknown = Object.entries(SINCE).filter(([, since]) => protocol < since)
  return { ...link, ...olderCalls(link, protocol), ...Object.fromEntries(unknown.map(([verb]) => [verb, refuse])) }
}

/** Calls that it knows, without what it does not know of them. */
function olderCalls(link: AgentLink, protocol: number): Pick<AgentLink, 'startExec' | 'listFiles' | 'searchFiles' | 'beginSearch'> {
  const keeps_stdin = protocol >= 6
  const goes_on = protocol >= 7
  const searchFiles: AgentLink['searchFiles'] = (asked, bounds) =>
    asked.cursor !== undefined && !goes_on ? refuse() : link.searchFiles(asked, bounds)
  return {
    startExec: (exec, bounds) => (exec.stdin_open && !keeps_stdin ? refuse() : link.startExec(exec, bounds)),
    listFiles: (path, asked, bounds) =>
      (asked.cursor !== undefined || asked.recursive) && !goes_on ? refuse() : link.listFiles(path, asked, bounds),
    searchFiles,
    beginSearch: (asked, _on_disk_after_ms, bounds) => searchFiles(asked, bounds),
  }
}

function refuse(): Promise<never> {
  const message = 'The workspace was saved by an older version that cannot do this; it can once it was reset or has started anew'
  return Promise.reject(fail('conflict', 'guest_feature_unavailable', message))
}
