import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Timestamp, Uuid, Enum } from '../common.ts'
import { Idle, IDLE_ENDS, RecentActivity, SuspendRequest } from '../workspaces.ts'

export const Keepalive = Type.Object({ seconds: Type.Integer({ minimum: 0, maximum: LIMITS.idle.keepalive_seconds_max }) }, strict)

export const KeepaliveAnswer = Type.Object({ keepalive_until: Timestamp() }, { title: 'KeepaliveAnswer' })

export const WakeHint = Type.Object({ residency: Enum(['resident', 'frozen', 'hibernated', 'restoring']) }, { title: 'WakeHint' })

export const AWAKE_KINDS = ['call', 'stream', 'command', 'keepalive', 'operation'] as const

/** See the specification (Cell, "Workspace as seen by tool calls"). */
export const Awake = Type.Object({
  kind: Enum(AWAKE_KINDS, { description: 'call: a tool call in progress; stream: one that is attached; command: started through exec' }),
  since: Nullable(Timestamp()),
  until: Nullable(Timestamp('null: until it ends')),
  session_id: Nullable(Type.String({ description: 'stream, command: of which session' })),
  route: Nullable(Type.String({ description: 'call, stream: which call' })),
  operation_id: Nullable(Uuid()),
})

export const RESIDENCY_REASONS = ['operation', 'use', 'keepalive', 'wake_hint', 'command', 'busy', 'recent', 'never_parked'] as const

/** See the specification (Cell, "Parking"). */
export const Residency = Type.Object(
  {
    state: Nullable(Enum(['resident', 'frozen', 'hibernated', 'restoring'], { description: 'null: it does not run' })),
    reason: Nullable(
      Enum(RESIDENCY_REASONS, {
        description:
          'Why it is resident, the first that applies. operation: one has it in hand; use: a call in progress, an attached stream; wake_hint: a call was announced; command: one that was started through exec runs; busy: its processes used processor or network after the last use, or nobody has looked yet; recent: it was used too short a time ago; never_parked: nothing is parked here',
      }),
    ),
    park_after_seconds: Nullable(
      Type.Number({ description: 'Unused, and without use of processor or network, it is parked after so long; null: never' }),
    ),
    park_after_by: Enum(['workspace', 'template', 'cell'], {
      description: 'Who says so: the background_seconds of the workspace, those of its template, or the cell',
    }),
    park_at: Nullable(Timestamp('When it is parked at the earliest, if it stays unused and quiet; null while something else keeps it')),
  },
  { title: 'Residency' },
)
export type Residency = Static<typeof Residency>

/** See the specification (Cell, "Idle record"). */
export const IdleRecord = Type.Object(
  {
    policy: Idle.properties.policy,
    timeout_seconds: Idle.properties.timeout_seconds,
    basis: Idle.properties.basis,
    recent_activity: RecentActivity,
    idle_since: Nullable(Timestamp('null while something keeps it from being idle')),
    awake: Type.Array(Awake, { description: 'What keeps it from being idle: of calls, streams and commands the oldest few' }),
    suspend_request: Nullable(SuspendRequest),
    suspend_at: Nullable(
      Timestamp("The earlier of the policy's time and the request's, if what keeps it awake ended by now or by its time"),
    ),
    suspend_by: Nullable(Enum(IDLE_ENDS, { description: 'Whose time that is' })),
    residency: Residency,
    failed_suspends: Idle.properties.failed_suspends,
  },
  { title: 'IdleRecord' },
)
