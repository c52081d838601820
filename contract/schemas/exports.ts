import Type, { type Static } from 'typebox'
import { List, Nullable, Timestamp, Uuid, Enum } from './common.ts'

export const EXPORT_STATES = ['queued', 'running', 'ready', 'failed', 'expired'] as const
export type ExportState = (typeof EXPORT_STATES)[number]
export const EXPORT_FAILURES = ['export_too_large', 'internal_error'] as const
export type ExportFailure = (typeof EXPORT_FAILURES)[number]

export const Export = Type.Object(
  {
    id: Uuid(),
    organization_id: Nullable(Uuid('null: of an account')),
    requested_by: Uuid('The person'),
    state: Enum(EXPORT_STATES, { description: 'Only one that is ready can be read' }),
    failure: Nullable(Enum(EXPORT_FAILURES, { description: 'Why it failed' })),
    size_bytes: Nullable(Type.Integer({ description: 'Of the archive' })),
    sha256: Nullable(Type.String({ description: 'Of the archive' })),
    created_at: Timestamp(),
    completed_at: Nullable(Timestamp('When it was ready, or failed')),
    expires_at: Nullable(Timestamp('When the archive goes; earlier where a newer one is ready')),
  },
  { title: 'Export' },
)
export type Export = Static<typeof Export>
export const ExportList = List(Export, 'ExportList')
