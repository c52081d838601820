import Type from 'typebox'
import { NO_REASON } from '../../errors.ts'
import { LIMITS } from '../../limits.ts'
import { appRoute } from '../../route.ts'
import { Uuid } from '../../schemas/common.ts'
import { TemplateUpload, TemplateUploadRequest, UploadPartQuery } from '../../schemas/template-uploads.ts'
import { DEVELOPERS } from './templates.ts'

const PATH = '/v1/template-uploads'
const params = Type.Object({ upload_id: Uuid() })
const access = { ...DEVELOPERS, within: 'upload' } as const
const UNCONFIGURED = { dependency_unavailable: ['uploads_not_configured'] } as const

export const templateUploadsCreate = appRoute({
  id: 'template-uploads.create',
  method: 'POST',
  path: PATH,
  summary: 'Begin the upload of a tar that builds of templates take files from; its bytes follow in parts',
  access: { ...DEVELOPERS, within: 'project' },
  body: TemplateUploadRequest,
  answers: { 201: { schema: TemplateUpload, description: 'Begun' } },
  errors: { ...UNCONFIGURED, not_found: NO_REASON, quota_exceeded: NO_REASON, validation_failed: ['upload_too_large'] },
})

export const templateUploadsGet = appRoute({
  id: 'template-uploads.get',
  method: 'GET',
  path: `${PATH}/{upload_id}`,
  summary: 'One upload, and how much of it is there',
  access,
  params,
  answers: { 200: { schema: TemplateUpload, description: 'The upload' } },
  errors: { not_found: NO_REASON },
})

export const templateUploadsPart = appRoute({
  id: 'template-uploads.part',
  method: 'PUT',
  path: `${PATH}/{upload_id}`,
  summary: 'The next part of an upload: kept as a whole, or not at all. The last one is answered when the digest has been compared',
  access,
  params,
  query: UploadPartQuery,
  body: 'bytes',
  body_bytes_max: LIMITS.template_upload.part_bytes_max,
  answers: { 200: { schema: TemplateUpload, description: 'Kept' } },
  errors: { ...UNCONFIGURED, not_found: NO_REASON, bad_request: NO_REASON, validation_failed: [null, 'upload_digest_mismatch'] },
})

export const templateUploadsDelete = appRoute({
  id: 'template-uploads.delete',
  method: 'DELETE',
  path: `${PATH}/{upload_id}`,
  summary: 'Remove an upload; templates that were built with it keep what they have',
  access,
  params,
  answers: { 204: { description: 'It is gone' } },
  errors: { not_found: NO_REASON },
})
