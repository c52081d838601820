import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Timestamp, Uuid, Word } from '../common.ts'
import { Idle, IDLE_ENDS, RecentActivity, SuspendRequest } from '../workspaces.ts'

export const Keepalive = Type.Object({ seconds: Type.Integer({ minimum: 0, maximum: LIMITS.idle.keepalive_seconds_max }) }, strict)

export const KeepaliveAnswer = Type.Object({ keepalive_until: Timestamp() })

export const WakeHint = Type.Object({
  residency: Word(['resident', 'frozen', 'hibernated', 'restoring']),
})

export const AWAKE_KINDS = ['call', 'stream', 'command', 'keepalive', 'operation'] as const

/** What keeps a workspace from idle suspend (Cell, "Workspace as seen by tool calls"). */
export const Awake = Type.Object({
  kind: Word(AWAKE_KINDS, { description: 'call: a tool call in progress; stream: one that is attached; command: started through exec' }),
  since: Nullable(Timestamp()),
  until: Nullable(Timestamp('null: until it ends')),
  session_id: Nullable(Type.String({ description: 'stream, command: of which session' })),
  route: Nullable(Type.String({ description: 'call, stream: which call' })),
  operation_id: Nullable(Uuid()),
})

/** Cell, "Idle record". */
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
    suspend_by: Nullable(Word(IDLE_ENDS, { description: 'Whose time that is' })),
    failed_suspends: Idle.properties.failed_suspends,
  },
  { title: 'IdleRecord' },
)
