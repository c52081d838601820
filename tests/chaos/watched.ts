import type { Actor } from './open.ts'

/** One test of a point on one workspace. */
export interface Case {
  /** Requests the operation and returns its outcome. */
  run(watched: Watched): Promise<string>
  /** Checks that the content is complete, and matches the outcome. */
  verify(): Promise<void>
}

export interface Watched {
  /** Whether the process has reached the point. */
  fired(): Promise<boolean>
  /** Resolves to another api that took over from the stopped one. It gets the same request with the same key. */
  elsewhere: Promise<Actor>
  /** Aborted when another process has taken over. */
  taken_over: AbortSignal
}
