import type { TemplateSettings } from '../../../../contract/schemas/template-settings.ts'
import type { Principal } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { requestedTools } from '../../calls/scope.ts'

/**
 * A published version runs in every project that opens the template. A key may therefore auto-publish only templates of its own project.
 */
export function refuseAutoPublish(who: Principal, auto_publish: boolean | undefined, { project_id }: { project_id: string | null }): void {
  if (auto_publish !== true || who.type === 'user' || who.project_id === project_id) return
  const message =
    'The template was made by a person or by another project: build without auto_publish, and let a person publish the version'
  throw fail('forbidden', 'template_not_of_project', message)
}

/** These commands run in the guest with the workspace's secrets, so a key that builds them needs `exec`. */
export function refuseCommands(who: Principal, organization_id: string, { start = [], services = [] }: TemplateSettings): void {
  if (start.length + services.length > 0) requestedTools(who, organization_id, ['exec'])
}
