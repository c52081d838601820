import type { Actor } from './open.ts'

export interface Case {
  run(watched: Watched): Promise<string>
  /** Checks that the content is complete, and matches the outcome. */
  verify(): Promise<void>
}

export interface Watched {
  fired(): Promise<boolean>
  /** Resolves to another api that took over from the stopped one. It gets the same request with the same key. */
  elsewhere: Promise<Actor>
  taken_over: AbortSignal
}
