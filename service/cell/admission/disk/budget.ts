import { LIMITS } from '../../../../contract/limits.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail } from '../../../lib/fail.ts'

export interface DiskBudget {
  /** The cost of a call is only known after the call, so the last call may exceed the limit. */
  admit(workspace_id: string): void
  spend(workspace_id: string, cost: { bytes?: number; ms?: number }): void
}

interface Window {
  since_ms: number
  bytes: number
  busy_ms: number
}

const WINDOW_MS = LIMITS.disk_read.window_seconds * 1000
/** The most windows in memory. To displace other windows, a tenant must spend calls on as many workspaces. */
const WINDOWS_MAX = 10_000

export function createDiskBudget(clock: Clock): DiskBudget {
  const windows = new Map<string, Window>()
  const current = (workspace_id: string): Window => {
    const known = windows.get(workspace_id)
    const now_ms = clock.monotonic_ms()
    if (known !== undefined && now_ms - known.since_ms < WINDOW_MS) return known
    const fresh = { since_ms: now_ms, bytes: 0, busy_ms: 0 }
    windows.delete(workspace_id)
    windows.set(workspace_id, fresh)
    const [oldest] = windows.keys()
    if (windows.size > WINDOWS_MAX && oldest !== undefined) windows.delete(oldest)
    return fresh
  }
  return {
    admit(workspace_id) {
      const { since_ms, bytes, busy_ms } = current(workspace_id)
      if (bytes < LIMITS.disk_read.bytes_max && busy_ms < LIMITS.disk_read.busy_seconds_max * 1000) return
      const left_ms = since_ms + WINDOW_MS - clock.monotonic_ms()
      throw fail('workspace_not_running', 'offline_budget', 'The suspended workspace has been read too much: resume it to read on', {
        retry_after_seconds: Math.max(1, Math.ceil(left_ms / 1000)),
      })
    },
    spend(workspace_id, { bytes = 0, ms = 0 }) {
      const window = current(workspace_id)
      window.bytes += bytes
      window.busy_ms += ms
    },
  }
}
