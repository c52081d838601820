/**
 * @returns the whole seconds until a window that began at `began` is over, for `retry_after_seconds`: at least 1, at most its length.
 * A request that waited for a lock may have read its clock before the window began.
 */
export function secondsLeft(began: Date, seconds: number, now: Date): number {
  return Math.min(seconds, Math.max(1, Math.ceil((began.getTime() + seconds * 1000 - now.getTime()) / 1000)))
}
