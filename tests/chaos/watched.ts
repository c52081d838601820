import type { Actor } from './open.ts'

export interface Case {
  run(watched: Watched): Promise<string>
  verify(): Promise<void>
}

export interface Watched {
  fired(): Promise<boolean>
  /** Caller of the api that took over from the stopped one. It sends the same request with the same key. */
  elsewhere: Promise<Actor>
  taken_over: AbortSignal
}
