import type { Template, TemplateVersion, WarmVersion } from '../../../contract/schemas/templates.ts'
import type { TemplateRow, VersionRow } from './store.ts'

export function templateView({ created_at, archived_at, ...row }: TemplateRow): Template {
  return { ...row, created_at: created_at.toISOString(), archived_at: archived_at?.toISOString() ?? null }
}

export function versionView({ layered, captures, created_at, published_at, archived_at, ...row }: VersionRow): TemplateVersion {
  return {
    ...row,
    disk_layout: layered ? 'layered' : 'legacy',
    ...(row.settings.warm === true ? { warm: warmOf(captures) } : {}),
    created_at: created_at.toISOString(),
    published_at: published_at?.toISOString() ?? null,
    archived_at: archived_at?.toISOString() ?? null,
  }
}

function warmOf(captures: VersionRow['captures']): WarmVersion {
  const has = (...states: string[]) => captures.some(({ state }) => states.includes(state))
  if (has('ready')) return { state: 'ready', error: null }
  if (has('wanted', 'making')) return { state: 'making', error: null }
  const failed = captures.find(({ state }) => state === 'failed')
  return failed === undefined ? { state: 'none', error: null } : { state: 'failed', error: failed.error }
}
