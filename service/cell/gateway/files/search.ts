import type { filesSearch } from '../../../../contract/routes/cell/files.ts'
import type { FileSearch } from '../../../../contract/schemas/cell/search.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { checkPath } from './path.ts'

/** The agent validates patterns and globs, because it matches with them. */
export const searchFiles: GatewayHandler<typeof filesSearch> = async (call, _deps, ticket) => {
  const wanted = searchOf(call.body)
  const body = await callAgent(ticket, 'read', call, async (bounds) => {
    const result = await ticket.files.searchFiles(wanted, bounds)
    if (result.matches.length <= wanted.max_matches && result.truncated === (result.stop_reason !== null)) return result
    throw new AgentFailure('nonsense', 'The agent found more than it was asked for')
  })
  return { status: 200, headers: ticket.read_headers, body }
}

/** A search whose missing fields have their defaults. */
type WholeSearch = Required<Omit<FileSearch, 'cursor'>> & Pick<FileSearch, 'cursor'>

export function searchOf(asked: FileSearch): WholeSearch {
  const { regex = false, case_insensitive = false, include = [], exclude = [], context_lines = 0 } = asked
  const { max_matches = LIMITS.search.matches_default } = asked
  const max_file_bytes = Math.min(asked.max_file_bytes ?? LIMITS.search.file_bytes_default, LIMITS.search.file_bytes_max)
  const path = checkPath('path', asked.path)
  const pattern = checkPattern(asked.pattern)
  const { cursor } = asked
  const from = cursor === undefined ? {} : { cursor }
  return { path, pattern, regex, case_insensitive, include, exclude, max_matches, max_file_bytes, context_lines, ...from }
}

function checkPattern(pattern: string): string {
  const bytes = Buffer.byteLength(pattern)
  if (bytes > 0 && bytes <= LIMITS.search.pattern_bytes_max && pattern.isWellFormed()) return pattern
  const message = `must be text of 1 to ${LIMITS.search.pattern_bytes_max} bytes`
  throw fail('validation_failed', null, 'The pattern is not valid', { details: { issues: [{ path: 'pattern', message }] } })
}
