import type { Actor } from './open.ts'

/** One workspace on the way past a point. */
export interface Case {
  /** Asks for what comes past the point, and says how it ended. */
  run(watched: Watched): Promise<string>
  /** What must hold whatever happened: before or after, whole, and the content is the one that the outcome says. */
  verify(): Promise<void>
}

export interface Watched {
  /** Whether the process has come past the point. */
  fired(): Promise<boolean>
  /** Another api, where one takes over from the one that stands still; it is asked the same with the same key. */
  elsewhere: Promise<Actor>
  /** Fires when another process has taken over. */
  taken_over: AbortSignal
}
