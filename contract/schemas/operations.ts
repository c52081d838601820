import Type, { type Static } from 'typebox'
import { OPERATION_ERRORS } from '../errors.ts'
import { OPERATION_KINDS, OPERATION_STATES } from '../states/operation.ts'
import { AuditActor } from './audit.ts'
import { List, Nullable, PageQuery, Timestamp, Uuid, Enum } from './common.ts'

const open = { additionalProperties: true } as const

export const OperationError = Type.Object(
  {
    code: Enum(Object.keys(OPERATION_ERRORS) as (keyof typeof OPERATION_ERRORS)[]),
    message: Type.String(),
    retryable: Type.Boolean(),
    details: Type.Object(
      {},
      { ...open, description: 'While it waits for room: deadline_at. By code: reason, waited_seconds, required, host_class, …' },
    ),
  },
  { title: 'OperationError' },
)

/** See the specification (App, "Operation"). */
export const Operation = Type.Object(
  {
    id: Uuid(),
    kind: Enum(OPERATION_KINDS),
    state: Enum(OPERATION_STATES),
    state_reason: Nullable(Type.String({ description: 'Why it is in that state' })),
    workspace_id: Nullable(Uuid('Of a fork: the new workspace')),
    created_at: Timestamp(),
    updated_at: Timestamp(),
    started_at: Nullable(Timestamp('When it first entered running')),
    completed_at: Nullable(Timestamp()),
    error: Nullable(OperationError),
    result: Nullable(Type.Object({}, { ...open, description: 'What it produced, such as checkpoint_id; null unless it succeeded' })),
    input: Type.Object({}, { ...open, description: 'What it was asked, such as reason, requested_at, after_seconds, source_workspace_id' }),
    requested_by: Type.Optional(
      Nullable(
        Type.Object(AuditActor.properties, {
          description:
            'Who asked, as records of changes name them. Of an operation that others joined: who asked first. null: it is older than this field. Absent in an answer that an older release kept for repeats',
        }),
      ),
    ),
  },
  { title: 'Operation' },
)
export type Operation = Static<typeof Operation>
export const OperationList = List(Operation, 'OperationList')

export const OperationQuery = Type.Object({
  ...PageQuery,
  state: Type.Optional(Enum(OPERATION_STATES)),
  kind: Type.Optional(Enum(OPERATION_KINDS)),
})
