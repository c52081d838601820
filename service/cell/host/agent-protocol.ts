import { AGENT_PROTOCOLS } from '../../../contract/internal/agent.ts'
import { fail } from '../../lib/fail.ts'
import type { AgentLink } from './agent-link.ts'

interface Later {
  since: number
  feature: string
}
const later = (since: number, feature: string): Later => ({ since, feature })
const STDIN = later(6, 'stdin')
const FILE_LIST = later(7, 'file_list')
const COMMAND_LIST = later(10, 'command_list')
const FILE_SEARCH = later(7, 'file_search')

/** Calls that protocol 1 does not have. */
const LATER: Partial<Record<keyof AgentLink, Later>> = {
  openTerminal: later(2, 'pty'),
  getTerminal: later(2, 'pty'),
  closeTerminal: later(2, 'pty'),
  resizeTerminal: later(2, 'pty'),
  typeIntoTerminal: later(2, 'pty'),
  attachTerminal: later(2, 'pty'),
  searchFiles: later(2, 'file_search'),
  beginSearch: later(2, 'file_search'),
  patchFile: later(2, 'file_patch'),
  listChanges: later(2, 'changes'),
  readFacts: later(9, 'changes'),
  listListeners: later(10, 'listeners'),
  listProcesses: later(2, 'processes'),
  signalProcess: later(2, 'processes'),
  cloneRepository: later(2, 'git'),
  gitStatus: later(2, 'git'),
  commitChanges: later(2, 'git'),
  openBrowser: later(2, 'browser'),
  openTar: later(5, 'tar'),
  writeTar: later(5, 'tar'),
  writeStdin: STDIN,
  openWatch: later(8, 'watch'),
  listExecs: COMMAND_LIST,
  listTerminals: COMMAND_LIST,
}

/** Wraps an older agent, which may run in a workspace's restored memory. Calls that the agent does not support are refused here. */
export function linkOf(link: AgentLink, protocol: number): AgentLink {
  if (protocol >= AGENT_PROTOCOLS.current) return link
  const unknown = Object.entries(LATER).filter(([, { since }]) => protocol < since)
  const refusals: Partial<AgentLink> = Object.fromEntries(unknown.map(([verb, { feature }]) => [verb, () => refuse(feature)]))
  return { ...link, ...olderCalls(link, protocol), ...refusals }
}

/** Refuses options that the older agent does not support. */
function olderCalls(link: AgentLink, protocol: number): Pick<AgentLink, 'startExec' | 'listFiles' | 'searchFiles' | 'beginSearch'> {
  const lacks = ({ since }: Later) => protocol < since
  const searchFiles: AgentLink['searchFiles'] = (asked, bounds) =>
    asked.cursor !== undefined && lacks(FILE_SEARCH) ? refuse(FILE_SEARCH.feature) : link.searchFiles(asked, bounds)
  return {
    startExec: (exec, bounds) => (exec.stdin_open && lacks(STDIN) ? refuse(STDIN.feature) : link.startExec(exec, bounds)),
    listFiles: (path, asked, bounds) =>
      (asked.cursor !== undefined || asked.recursive) && lacks(FILE_LIST) ? refuse(FILE_LIST.feature) : link.listFiles(path, asked, bounds),
    searchFiles,
    beginSearch: (asked, _on_disk_after_ms, bounds) => searchFiles(asked, bounds),
  }
}

function refuse(feature: string): Promise<never> {
  const message =
    'The workspace was saved by an older version that cannot do this. It can after a reset, or after its next start from its disk'
  return Promise.reject(fail('conflict', 'guest_feature_unavailable', message, { details: { feature } }))
}
