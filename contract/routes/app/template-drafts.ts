import Type from 'typebox'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { PageQuery } from '../../schemas/common.ts'
import { Operation } from '../../schemas/operations.ts'
import { SaveAsTemplateResponse } from '../../schemas/template-builds.ts'
import {
  DraftPublishRequest,
  DraftStateList,
  DraftStateRequest,
  DraftTestInstanceQuery,
  DraftTestInstanceRequest,
  TemplateDraft,
  TemplateDraftRequest,
  TemplateDraftStarted,
} from '../../schemas/template-drafts.ts'
import { TemplateSlug } from '../../schemas/templates.ts'
import { OpenResponse, WorkspaceList } from '../../schemas/workspaces.ts'
import { BUILD_FORBIDDEN, DEVELOPERS, LONG, SHORT, templateParams, type TemplateAddress } from './templates.ts'
import { preferenceApplied, startErrors } from './workspaces.ts'

const NO_DRAFT = ['draft_not_found', ...NO_REASON] as const

export const draftsGet = appRoute({ id: 'drafts.get', ...get(SHORT) })
export const draftsGetOfOrganization = appRoute({ id: 'drafts.get_of_organization', ...get(LONG) })
export const draftsCreate = appRoute({ id: 'drafts.create', ...create({ ...SHORT, within: 'project' }) })
export const draftsCreateOfOrganization = appRoute({ id: 'drafts.create_of_organization', ...create(LONG) })
export const draftsDiscard = appRoute({ id: 'drafts.discard', ...discard(SHORT) })
export const draftsDiscardOfOrganization = appRoute({ id: 'drafts.discard_of_organization', ...discard(LONG) })
export const draftStatesList = appRoute({ id: 'draft-states.list', ...states(SHORT) })
export const draftStatesListOfOrganization = appRoute({ id: 'draft-states.list_of_organization', ...states(LONG) })
export const draftStatesCreate = appRoute({ id: 'draft-states.create', ...capture(SHORT) })
export const draftStatesCreateOfOrganization = appRoute({ id: 'draft-states.create_of_organization', ...capture(LONG) })
export const draftTestInstancesList = appRoute({ id: 'draft-test-instances.list', ...instances(SHORT) })
export const draftTestInstancesListOfOrganization = appRoute({ id: 'draft-test-instances.list_of_organization', ...instances(LONG) })
export const draftTestInstancesCreate = appRoute({ id: 'draft-test-instances.create', ...instance(SHORT) })
export const draftTestInstancesCreateOfOrganization = appRoute({ id: 'draft-test-instances.create_of_organization', ...instance(LONG) })
export const draftsPublish = appRoute({ id: 'drafts.publish', ...publish(SHORT) })
export const draftsPublishOfOrganization = appRoute({ id: 'drafts.publish_of_organization', ...publish(LONG) })

function get(form: TemplateAddress) {
  return {
    method: 'GET',
    path: `${form.path}/{slug}/draft`,
    summary: 'The draft of a template',
    access: { ...DEVELOPERS, within: form.within },
    params: templateParams(form),
    answers: { 200: { schema: TemplateDraft, description: 'The draft' } },
    errors: { not_found: NO_DRAFT },
  } as const
}

/** Access depends on the template's future owner, because the template may not exist yet. */
function create<P extends object>(form: { path: string; params: P; within: 'project' | 'organization' }) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/draft`,
    summary: 'Open the draft of a template, a workspace of the version that it is based on; a template that is not there is made',
    access: { ...DEVELOPERS, within: form.within },
    idempotent: true,
    waits: true,
    params: Type.Object({ ...form.params, slug: TemplateSlug }),
    body: TemplateDraftRequest,
    body_optional: true,
    answers: {
      200: { schema: TemplateDraftStarted, headers: preferenceApplied, description: 'The draft, whose workspace runs and is ready' },
      202: { schema: TemplateDraftStarted, headers: preferenceApplied, description: 'The draft, and the operation that opens it' },
    },
    errors: {
      ...startErrors,
      forbidden: NO_REASON,
      not_found: ['version_not_found', ...NO_REASON],
      conflict: ['template_archived', 'version_archived', 'template_not_layered', 'draft_exists'],
      validation_failed: [
        null,
        'base_required',
        'platform_template_slug',
        'reserved_template_slug',
        'input_required',
        'input_unknown',
        'input_invalid',
        'env_collision',
      ],
    },
  } as const
}

function discard(form: TemplateAddress) {
  return {
    method: 'DELETE',
    path: `${form.path}/{slug}/draft`,
    summary: 'Discard the draft of a template with its states; its test instances end',
    revokes: 'everywhere',
    access: { ...DEVELOPERS, within: form.within },
    idempotent: true,
    params: templateParams(form),
    answers: { 202: { schema: Operation, description: 'The delete operation of its workspace' } },
    errors: { not_found: NO_DRAFT, conflict: ['build_in_progress'] },
  } as const
}

function states(form: TemplateAddress) {
  return {
    method: 'GET',
    path: `${form.path}/{slug}/draft/states`,
    summary: 'States of the draft that were captured, newest first',
    access: { ...DEVELOPERS, within: form.within },
    params: templateParams(form),
    query: Type.Object(PageQuery),
    answers: { 200: { schema: DraftStateList, description: 'A page' } },
    errors: { not_found: NO_DRAFT },
  } as const
}

function capture(form: TemplateAddress) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/draft/states`,
    summary: 'Capture the disk of the draft, which runs on',
    access: { ...DEVELOPERS, within: form.within },
    idempotent: true,
    params: templateParams(form),
    body: DraftStateRequest,
    body_optional: true,
    answers: {
      202: { schema: Operation, description: 'The layer_snapshot operation: its input has state_id, its result checkpoint_id' },
    },
    errors: {
      not_found: NO_DRAFT,
      quota_exceeded: NO_REASON,
      conflict: ['operation_in_progress', 'workspace_not_running'],
    },
  } as const
}

function instances(form: TemplateAddress) {
  return {
    method: 'GET',
    path: `${form.path}/{slug}/draft/test-instances`,
    summary: "Test instances of the draft's states, newest first",
    access: { ...DEVELOPERS, within: form.within },
    params: templateParams(form),
    query: DraftTestInstanceQuery,
    answers: { 200: { schema: WorkspaceList, description: 'A page' } },
    errors: { not_found: NO_DRAFT },
  } as const
}

function instance(form: TemplateAddress) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/draft/test-instances`,
    summary: 'Open a session workspace of a state of the draft, to try it; what it writes is its own',
    access: { ...DEVELOPERS, within: form.within },
    idempotent: true,
    waits: true,
    params: templateParams(form),
    body: DraftTestInstanceRequest,
    body_optional: true,
    answers: {
      200: { schema: OpenResponse, headers: preferenceApplied, description: 'One that runs and is ready' },
      202: { schema: OpenResponse, headers: preferenceApplied, description: 'Its operation, to poll' },
    },
    errors: {
      ...startErrors,
      forbidden: NO_REASON,
      not_found: ['draft_not_found', 'draft_state_not_found', ...NO_REASON],
      conflict: ['operation_in_progress', 'key_in_use', 'template_archived'],
      validation_failed: ['reserved_key_prefix', 'input_required', 'input_unknown', 'input_invalid', 'env_collision'],
    },
  } as const
}

function publish(form: TemplateAddress) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/draft/publish`,
    summary: 'Make a version of what the draft holds, or of one of its states',
    access: { ...DEVELOPERS, within: form.within },
    idempotent: true,
    params: templateParams(form),
    body: DraftPublishRequest,
    body_optional: true,
    answers: { 202: { schema: SaveAsTemplateResponse, description: 'What captures the files, and the build, to poll' } },
    errors: {
      ...BUILD_FORBIDDEN,
      not_found: ['draft_not_found', 'draft_state_not_found', ...NO_REASON],
      quota_exceeded: NO_REASON,
      conflict: ['template_archived', 'build_in_progress', 'draft_stale', 'operation_in_progress', 'workspace_not_running'],
      validation_failed: ['invalid_settings', 'update_policy_not_available', 'too_many_acknowledged_findings', 'invalid_path'],
    },
  } as const
}
