import type { AuditTarget } from '../changes/audit.ts'

export function versionAuditTarget(of: { id: string; organization_id: string | null; slug: string; version: number }): AuditTarget {
  const { id, organization_id, slug, version } = of
  return { kind: 'template_version', id, organization_id, project_id: null, details: { slug, version } }
}
