import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { TestInstanceRequest } from '../../schemas/templates.ts'
import { OpenResponse } from '../../schemas/workspaces.ts'
import { DEVELOPERS, LONG, SHORT, versionParams, type TemplateAddress } from './templates.ts'
import { preferenceApplied, startErrors } from './workspaces.ts'

export const testInstancesCreate = appRoute({ id: 'test-instances.create', ...create(SHORT) })
export const testInstancesCreateOfOrganization = appRoute({ id: 'test-instances.create_of_organization', ...create(LONG) })

function create(form: TemplateAddress) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/versions/{version}/test-instances`,
    summary: 'Open a session workspace of a version, published or not, to try it; what it writes is its own',
    access: { ...DEVELOPERS, within: form.within },
    idempotent: true,
    waits: true,
    params: versionParams(form),
    body: TestInstanceRequest,
    answers: {
      200: { schema: OpenResponse, headers: preferenceApplied, description: 'The one of this key, which runs and is ready' },
      202: { schema: OpenResponse, headers: preferenceApplied, description: 'Its operation, to poll' },
    },
    errors: {
      ...startErrors,
      forbidden: NO_REASON,
      not_found: ['version_not_found', ...NO_REASON],
      conflict: ['operation_in_progress', 'key_in_use', 'template_archived', 'template_not_layered'],
      validation_failed: [
        'reserved_key_prefix',
        'platform_template_slug',
        'input_required',
        'input_unknown',
        'input_invalid',
        'env_collision',
      ],
    },
  } as const
}
