import type { PeopleDeps } from './auth/people.ts'

export interface AccessDeps {
  people: PeopleDeps
}
