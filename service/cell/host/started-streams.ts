import type { IncomingMessage } from 'node:http'

/** Output streams of commands that have just started, stored for callers that follow them at once. */
export interface PrefetchedStreams {
  open(): boolean
  keep(session_id: string, frames: IncomingMessage): void
  /** Removes and returns a session's stream from its beginning; undefined: there is none. */
  take(session_id: string): IncomingMessage | undefined
}

/** The limit for each machine. An unread stream holds one socket buffer; the rest of its output remains in the workspace. */
const STREAMS_MAX = 64
/** The time for which a stream is stored: a caller that follows does so within a round trip. */
const KEPT_MS = 2000

export function createStartedStreams(limits = { streams: STREAMS_MAX, kept_ms: KEPT_MS }): PrefetchedStreams {
  const kept = new Map<string, { frames: IncomingMessage; forget: () => void }>()
  return {
    open: () => kept.size < limits.streams,
    keep(session_id, frames) {
      // A second stream of one command comes only from a faulty or hostile agent. The first one is dropped.
      const before = kept.get(session_id)
      before?.forget()
      before?.frames.destroy()
      const late = setTimeout(() => frames.destroy(), limits.kept_ms)
      const forget = () => {
        clearTimeout(late)
        frames.off('close', forget).off('error', ignore)
        kept.delete(session_id)
      }
      frames.on('close', forget).on('error', ignore)
      kept.set(session_id, { frames, forget })
    },
    take(session_id) {
      const found = kept.get(session_id)
      if (found === undefined) return undefined
      found.forget()
      return found.frames.destroyed ? undefined : found.frames
    },
  }
}

/** The error needs no handling: a caller that follows asks the machine again and gets it. */
function ignore(): void {}
