import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Tool } from '../../../contract/route.ts'
import { auditEvent, TOOL_CALLS } from '../../core/changes/audit.ts'
import type { AuditEvent } from '../../core/changes/store.ts'
import type { Db } from '../../db/database.ts'
import type { ToolCaller } from '../../http/call.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import { insertToolUses } from './store.ts'

export interface ToolUsage {
  note(caller: ToolCaller, tool: Tool, entry: Pick<WorkspaceEntry, 'id' | 'organization_id' | 'project_id'>, source_address: string): void
  flush(): Promise<void>
}

/** Calls do not wait for the database. A kill loses at most the last second of records. */
export const FLUSH_MS = 1000
const ROWS_MAX = 1000
const MINUTE_MS = 60_000

export function createToolUses({ db, clock, ids, log }: { db: Db; clock: Clock; ids: Ids; log: Logger }): ToolUsage {
  let minute = 0
  let seen = new Set<string>()
  let waiting: AuditEvent[] = []
  let is_full = false
  let flushing: Promise<void> | null = null
  const write = async () => {
    while (waiting.length > 0) {
      const rows = waiting.slice(0, ROWS_MAX)
      await insertToolUses(db, rows) // on failure, the next flush writes them
      waiting = waiting.slice(rows.length)
    }
  }
  const begin = (next: number) => {
    minute = next
    seen = new Set()
    is_full = false
  }
  return {
    note(caller, tool, { id, organization_id, project_id }, source_address) {
      const now = clock.now()
      const at = Math.floor(now.getTime() / MINUTE_MS)
      if (at !== minute) begin(at)
      const name = `${caller.agent_session_id} ${tool} ${id}`
      if (seen.has(name)) return
      if (seen.size >= LIMITS.audit.tool_calls_per_minute_max) {
        if (!is_full) log.warn('more callers used tools in this minute than are recorded')
        is_full = true
        return
      }
      seen.add(name)
      const actor = { kind: 'tool_token', id: caller.agent_session_id, name: `${caller.principal_type}:${caller.principal_id}` } as const
      const by = { actor, ids, now, request_id: null, source_address: source_address === '' ? null : source_address }
      const minute_at = new Date(at * MINUTE_MS).toISOString()
      waiting.push(auditEvent(by, TOOL_CALLS, { kind: 'workspace', id, organization_id, project_id, details: { tool, minute: minute_at } }))
    },
    flush() {
      flushing ??= write().finally(() => {
        flushing = null
      })
      return flushing
    },
  }
}
