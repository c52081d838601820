import type { Project } from '../../../../contract/schemas/principals.ts'
import type { ProjectRow } from './store.ts'

export function projectView({ created_at, ...row }: ProjectRow): Project {
  return { ...row, created_at: created_at.toISOString() }
}
