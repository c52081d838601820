import type { Template, TemplateVersion } from '../../../contract/schemas/templates.ts'
import type { TemplateRow, VersionRow } from './store.ts'

export function templateView({ created_at, archived_at, ...row }: TemplateRow): Template {
  return { ...row, created_at: created_at.toISOString(), archived_at: archived_at?.toISOString() ?? null }
}

export function versionView({ layered, created_at, published_at, archived_at, ...row }: VersionRow): TemplateVersion {
  return {
    ...row,
    disk_layout: layered ? 'layered' : 'legacy',
    created_at: created_at.toISOString(),
    published_at: published_at?.toISOString() ?? null,
    archived_at: archived_at?.toISOString() ?? null,
  }
}
