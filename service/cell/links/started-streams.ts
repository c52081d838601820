import type { IncomingMessage } from 'node:http'

/** Streams of commands that have just been started, kept for the follower who is about to come. */
export interface StartedStreams {
  /** There is room for one more. */
  open(): boolean
  keep(session_id: string, frames: IncomingMessage): void
  /** The stream of a session from its beginning, once; undefined when there is none. */
  take(session_id: string): IncomingMessage | undefined
}

/** Of one machine. What a stream holds while nobody reads it is one buffer of the socket: the rest waits in the workspace. */
const STREAMS_MAX = 64
/** A caller that wants to follow does so within a round trip. */
const KEPT_MS = 2000

export function createStartedStreams(limits = { streams: STREAMS_MAX, kept_ms: KEPT_MS }): StartedStreams {
  const kept = new Map<string, { frames: IncomingMessage; forget: () => void }>()
  return {
    open: () => kept.size < limits.streams,
    keep(session_id, frames) {
      // Only an agent that lies starts one command twice.
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

/** Whoever follows asks the machine again and is told what is wrong. */
function ignore(): void {}
