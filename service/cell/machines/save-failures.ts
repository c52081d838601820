import type { Clock } from '../../lib/clock.ts'
import { HostFailure } from '../host/hostd.ts'

export type WhyHibernate = 'unused' | 'room'

/** `passing`: a failure of hostd, the pool or the database, which does not mean that the machine cannot be saved. */
export type FailureKind = 'machine' | 'passing'

const WAITS: Record<FailureKind, Record<WhyHibernate, { first_seconds: number; most_seconds: number }>> = {
  machine: { unused: { first_seconds: 60, most_seconds: 6 * 3600 }, room: { first_seconds: 5, most_seconds: 60 } },
  passing: { unused: { first_seconds: 1, most_seconds: 60 }, room: { first_seconds: 1, most_seconds: 5 } },
}

export interface SaveFailures {
  note(workspace_id: string, error: unknown): void
  forget(workspace_id: string): void
  last(workspace_id: string): { kind: FailureKind; again_at: Record<WhyHibernate, Date> } | null
  forgetOthers(known: ReadonlySet<string>): void
}

export function createSaveFailures(clock: Clock): SaveFailures {
  const failures = new Map<string, { kind: FailureKind; count: number; failed_ms: number }>()
  const againAt = ({ kind, count, failed_ms }: { kind: FailureKind; count: number; failed_ms: number }, why: WhyHibernate) => {
    const { first_seconds, most_seconds } = WAITS[kind][why]
    return new Date(failed_ms + Math.min(first_seconds * 2 ** (count - 1), most_seconds) * 1000)
  }
  return {
    note(workspace_id, error) {
      const kind = kindOf(error)
      const before = failures.get(workspace_id)
      const count = before?.kind === kind ? before.count + 1 : 1
      failures.set(workspace_id, { kind, count, failed_ms: clock.now().getTime() })
    },
    forget: (workspace_id) => void failures.delete(workspace_id),
    last(workspace_id) {
      const failure = failures.get(workspace_id)
      if (failure === undefined) return null
      return { kind: failure.kind, again_at: { unused: againAt(failure, 'unused'), room: againAt(failure, 'room') } }
    },
    forgetOthers(known) {
      for (const id of failures.keys()) if (!known.has(id)) failures.delete(id)
    },
  }
}

function kindOf(error: unknown): FailureKind {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof HostFailure) return cause.code === 'checkpoint_failed' ? 'machine' : 'passing'
  return 'passing'
}
