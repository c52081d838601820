/** A billing period; `ends_at` is the beginning of the next. */
export interface Period {
  starts_at: Date
  ends_at: Date
}

/** Returns the calendar month in UTC. Pure. */
export function periodOf(now: Date): Period {
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()]
  return { starts_at: new Date(Date.UTC(year, month)), ends_at: new Date(Date.UTC(year, month + 1)) }
}

/** Returns the range of its hours, for queries that include the hour of `to`. Pure. */
export function rangeOf({ starts_at, ends_at }: Period): { from: Date; to: Date } {
  return { from: starts_at, to: new Date(ends_at.getTime() - 1) }
}
