import type { PeopleDeps } from './auth/people.ts'

/** Services of sign-in and keys. */
export interface AccessDeps {
  people: PeopleDeps
}
