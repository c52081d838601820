import { BerthError, ConnectionError, errorOf } from './errors.ts'
import { type ErrorEvent, eventsOf } from './events.ts'
import type { Gateway } from './gateway.ts'
import { FOREVER_MS, IMMEDIATE_REPEATS_MAX, mayRepeat, pause, waitBefore } from './retry.ts'
import { type CallOptions, deadlineFor } from './transport.ts'

/**
 * An event of a watch. `start`: watching has begun. After `missed` read the directory again; `directories`: it has more subdirectories
 * than can be watched.
 */
export type WatchEvent =
  | { type: 'change'; path: string; change: 'added' | 'modified' | 'metadata' | 'deleted'; isDirectory: boolean }
  | { type: 'missed'; why: 'events' | 'directories' }
  | { type: 'start' }

export interface WatchOptions extends CallOptions {
  /** Includes all subdirectories. */
  recursive?: boolean
}

export type WatchMessage =
  | { type: 'start'; offset: number; watch_id: string; missed: boolean }
  | { type: 'change'; offset: number; path: string; change: 'added' | 'modified' | 'metadata' | 'deleted'; is_directory: boolean }
  | { type: 'overflow'; offset: number; why: 'events' | 'directories' }
  | { type: 'end'; offset: number }
  | { type: 'heartbeat' }
  | ErrorEvent

/** Watches across lost connections, suspends and resumes, until the directory is gone. */
export async function* watched(gateway: Gateway, path: string, { recursive, ...options }: WatchOptions): AsyncGenerator<WatchEvent, void> {
  const deadline = deadlineFor(options, FOREVER_MS)
  let at: { watch_id: string; offset: number } | undefined
  for (let attempt = 0; ; attempt += 1) {
    try {
      const query = { path, recursive, ...at }
      for await (const event of eventsOf<WatchMessage>(gateway, { method: 'GET', path: '/files/watch', query }, deadline)) {
        if (event.type === 'heartbeat') continue
        if (event.type === 'error') throw errorOf({ status: 0, ...event.error })
        if (event.type === 'end') return
        if (event.type === 'start') {
          const is_first = at === undefined
          at = { watch_id: event.watch_id, offset: event.offset }
          if (event.missed) yield { type: 'missed', why: 'events' }
          else if (is_first) yield { type: 'start' }
          continue
        }
        attempt = 0
        at = { watch_id: at?.watch_id ?? '', offset: event.offset }
        if (event.type === 'overflow') yield { type: 'missed', why: event.why }
        else yield { type: 'change', path: event.path, change: event.change, isDirectory: event.is_directory }
      }
      throw new ConnectionError('The stream broke off')
    } catch (error) {
      if (!(error instanceof BerthError) || deadline.signal.aborted) throw error
      if ((await gateway.repair(error, deadline)) && attempt < IMMEDIATE_REPEATS_MAX) continue
      if (!mayRepeat(error, 'read')) throw error
      await pause(waitBefore(attempt, error.retryAfterMs), deadline)
    }
  }
}
