import type { EgressPolicy } from '../../../../contract/egress/policy.ts'
import type { TemplateSettings } from '../../../../contract/schemas/template-settings.ts'
import type { Reader } from '../../../db/reader.ts'

/** What a build from a workspace inherits from the workspace. */
export interface Source {
  layers: string[]
  settings: TemplateSettings
  egress: EgressPolicy | null
}

export async function readSource(reads: Reader, workspace_id: string): Promise<Source> {
  const [row] = await reads.rows<Source>(
    'template_builds.source',
    `select coalesce(w.state_layers, v.layers) as layers, v.settings, v.egress
     from workspaces w join template_versions v on v.id = w.template_version_id where w.id = $1`,
    [workspace_id],
  )
  if (row === undefined) throw new Error('a workspace has no template version')
  return row
}

export async function hasCapture(reads: Reader, workspace_id: string, checkpoint_id: string, now: Date): Promise<boolean> {
  const rows = await reads.rows(
    'template_builds.capture',
    `select 1 from checkpoints where workspace_id = $1 and id = $2 and kind <> 'parked' and deleted_at is null
     and (expires_at is null or expires_at > $3)`,
    [workspace_id, checkpoint_id, now],
  )
  return rows.length === 1
}
