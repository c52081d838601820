/** `ends_at`: the beginning of the next billing period. */
export interface Period {
  starts_at: Date
  ends_at: Date
}

/** A billing period is a calendar month in UTC. */
export function periodOf(now: Date): Period {
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()]
  return { starts_at: new Date(Date.UTC(year, month)), ends_at: new Date(Date.UTC(year, month + 1)) }
}

/** Ends before `ends_at`, because queries include the hour of `to`. */
export function rangeOf({ starts_at, ends_at }: Period): { from: Date; to: Date } {
  return { from: starts_at, to: new Date(ends_at.getTime() - 1) }
}
