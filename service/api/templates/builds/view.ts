import type { TemplateBuild } from '../../../../contract/schemas/template-builds.ts'
import type { BuildRow } from './store.ts'

export function buildView({ findings, error, log_bytes: _, ...row }: BuildRow): TemplateBuild {
  return {
    ...row,
    scan_findings: findings,
    error: error === null ? null : { ...error, details: error.details ?? {} },
    created_at: row.created_at.toISOString(),
    started_at: row.started_at?.toISOString() ?? null,
    completed_at: row.completed_at?.toISOString() ?? null,
  }
}
