import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { strict, Timestamp, Uuid, Enum } from './common.ts'

export const UPLOAD_STATES = ['receiving', 'complete'] as const
const SHA256 = '^[0-9a-f]{64}$'

export const TemplateUploadRequest = Type.Object(
  {
    size_bytes: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: `At most ${LIMITS.template_upload.bytes_max}` }),
    sha256: Type.String({ pattern: SHA256, description: 'Of all of it, in hex' }),
    project_id: Type.Optional(Uuid()),
  },
  { ...strict, title: 'TemplateUploadRequest' },
)

export const TemplateUpload = Type.Object(
  {
    id: Uuid(),
    organization_id: Uuid(),
    project_id: Uuid(),
    size_bytes: Type.Integer(),
    sha256: Type.String(),
    received_bytes: Type.Integer({ description: 'Where the next part begins' }),
    state: Enum(UPLOAD_STATES, { description: 'complete: all of it is there, and has the digest' }),
    created_at: Timestamp(),
    expires_at: Timestamp('It is gone then, where nothing is received or built with it before'),
  },
  { title: 'TemplateUpload' },
)
export type TemplateUpload = Static<typeof TemplateUpload>

export const UploadPartQuery = Type.Object({
  offset: Type.Optional(
    Type.Integer({ default: 0, minimum: 0, maximum: LIMITS.template_upload.bytes_max, description: 'received_bytes of the upload' }),
  ),
})
