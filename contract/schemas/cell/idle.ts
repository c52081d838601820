import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Timestamp, Word } from '../common.ts'
import { Idle, SuspendRequest } from '../workspaces.ts'

export const Keepalive = Type.Object({ seconds: Type.Integer({ minimum: 0, maximum: LIMITS.keepalive_seconds_max }) }, strict)

export const KeepaliveAnswer = Type.Object({ keepalive_until: Timestamp() })

export const WakeHint = Type.Object({
  residency: Word(['resident', 'frozen', 'hibernated', 'restoring']),
})

/** Cell, "Idle record". */
export const IdleRecord = Type.Object(
  {
    policy: Idle.properties.policy,
    timeout_seconds: Idle.properties.timeout_seconds,
    basis: Idle.properties.basis,
    recent_activity: Type.Object({
      active_at: Timestamp(),
      tool_call_at: Nullable(Timestamp()),
      busy_until: Nullable(Timestamp()),
      keepalive_until: Nullable(Timestamp()),
    }),
    idle_since: Nullable(Timestamp('null while something keeps it from being idle')),
    suspend_request: Nullable(SuspendRequest),
    suspend_at: Nullable(Timestamp("The earlier of the policy's time and the request's")),
  },
  { title: 'IdleRecord' },
)
