import type { Listener } from '../../db/listen.ts'

export interface WorkspaceChanges {
  /** A caller that subscribes before it reads the row misses no change. */
  next(workspace_id: string, limit_ms: number, signal: AbortSignal): Promise<void>
  close(): void
}

export function openWorkspaceChanges(listener: Pick<Listener, 'on'>): WorkspaceChanges {
  const waiting = new Map<string, Set<() => void>>()
  const unsubscribe = listener.on('berth_workspace', (id) => {
    for (const [workspace_id, those] of waiting) if (id === null || id === workspace_id) for (const wake of those) wake()
  })
  return {
    async next(workspace_id, limit_ms, signal) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const those = waiting.get(workspace_id) ?? new Set()
      waiting.set(workspace_id, those.add(resolve))
      const timer = setTimeout(resolve, limit_ms)
      signal.addEventListener('abort', () => resolve(), { once: true })
      if (signal.aborted) resolve()
      await promise
      clearTimeout(timer)
      those.delete(resolve)
      if (those.size === 0 && waiting.get(workspace_id) === those) waiting.delete(workspace_id)
    },
    close: unsubscribe,
  }
}
