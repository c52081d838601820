import type { Actor } from './open.ts'

export interface Case {
  run(watched: Watched): Promise<string>
  verify(): Promise<void>
}

export interface Watched {
  fired(): Promise<boolean>
  /** Another api that took over from the stopped one gets the same request with the same key. */
  elsewhere: Promise<Actor>
  taken_over: AbortSignal
}
