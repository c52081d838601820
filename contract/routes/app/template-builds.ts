import Type from 'typebox'
import { administrators, readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { RECIPE_REASONS } from '../../recipes/reasons.ts'
import { appRoute } from '../../route.ts'
import { Uuid } from '../../schemas/common.ts'
import { TemplateBuildRequest } from '../../schemas/recipes.ts'
import {
  SaveAsTemplateRequest,
  SaveAsTemplateResponse,
  TemplateBuild,
  TemplateBuildLog,
  TemplateBuildLogQuery,
  TemplateBuildStarted,
} from '../../schemas/template-builds.ts'
import { TemplateSlug } from '../../schemas/templates.ts'
import { BUILD_FORBIDDEN, DEVELOPERS, LONG, SHORT } from './templates.ts'
import { preferenceApplied, startErrors, workspaceParams } from './workspaces.ts'

const params = Type.Object({ build_id: Uuid() })

export const templateBuildsGet = appRoute({
  id: 'template-builds.get',
  method: 'GET',
  path: '/v1/template-builds/{build_id}',
  summary: 'One build; held until its state or state_reason changes when asked to wait',
  access: readers('template_build'),
  waits: true,
  params,
  answers: { 200: { schema: TemplateBuild, headers: preferenceApplied, description: 'The build' } },
  errors: { not_found: NO_REASON },
})

export const templateBuildsLog = appRoute({
  id: 'template-builds.log',
  method: 'GET',
  path: '/v1/template-builds/{build_id}/log',
  summary: 'What a build has said, from an offset on',
  access: readers('template_build'),
  params,
  query: TemplateBuildLogQuery,
  answers: { 200: { schema: TemplateBuildLog, description: 'A piece of the log' } },
  errors: { not_found: ['log_expired', ...NO_REASON] },
})

export const templateBuildsCancel = appRoute({
  id: 'template-builds.cancel',
  method: 'POST',
  path: '/v1/template-builds/{build_id}/cancel',
  summary: 'End a build that is not over; it makes no version',
  access: administrators('template_build', 'with_tool'),
  idempotent: true,
  params,
  answers: { 200: { schema: TemplateBuild, description: 'The build, which is canceled' } },
  errors: { not_found: NO_REASON, conflict: ['build_finished'] },
})

export const workspacesSaveAsTemplate = appRoute({
  id: 'workspaces.save_as_template',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/save-as-template',
  summary: 'Make a version of a template of all that a workspace holds',
  access: administrators('workspace', 'with_tool'),
  idempotent: true,
  params: workspaceParams,
  body: SaveAsTemplateRequest,
  answers: { 202: { schema: SaveAsTemplateResponse, description: 'What captures the files, and the build, to poll' } },
  errors: {
    ...BUILD_FORBIDDEN,
    not_found: ['checkpoint_not_found', ...NO_REASON],
    quota_exceeded: NO_REASON,
    conflict: [
      'workspace_deleted',
      'not_supported_for_mode',
      'legacy_disk_layout',
      'operation_in_progress',
      'workspace_not_running',
      'template_archived',
    ],
    validation_failed: [
      'platform_template_slug',
      'invalid_defaults',
      'update_policy_not_available',
      'too_many_acknowledged_findings',
      'invalid_path',
    ],
  },
})

export const templateBuildsCreate = appRoute({ id: 'template-builds.create', ...create({ ...SHORT, within: 'project' }) })
export const templateBuildsCreateOfOrganization = appRoute({ id: 'template-builds.create_of_organization', ...create(LONG) })

/** Access depends on the template's future owner, because the template may not exist yet. */
function create<P extends object>(form: { path: string; params: P; within: 'project' | 'organization' }) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/builds`,
    summary: 'Make a version of a template by a recipe or a Dockerfile; a template that is not there is made',
    access: { ...DEVELOPERS, within: form.within },
    idempotent: true,
    params: Type.Object({ ...form.params, slug: TemplateSlug }),
    body: TemplateBuildRequest,
    answers: { 202: { schema: TemplateBuildStarted, description: 'The build and its operation, to poll' } },
    errors: {
      ...startErrors,
      ...BUILD_FORBIDDEN,
      not_found: NO_REASON,
      conflict: ['template_archived'],
      dependency_unavailable: ['uploads_not_configured'],
      validation_failed: [
        null,
        ...RECIPE_REASONS,
        'base_not_found',
        'base_archived',
        'base_not_published',
        'base_not_layered',
        'architecture_not_supported',
        'upload_missing',
        'invalid_settings',
        'egress_widening',
        'platform_template_slug',
        'reserved_template_slug',
      ],
    },
  } as const
}
