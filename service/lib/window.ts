/**
 * @returns the seconds until a window that began at `began` is over, for `retry_after_seconds`: whole, at least 1, at most its length.
 * The limits are needed because a request that waited for a lock may have read its clock before the window began.
 */
export function secondsLeft(began: Date, seconds: number, now: Date): number {
  return Math.min(seconds, Math.max(1, Math.ceil((began.getTime() + seconds * 1000 - now.getTime()) / 1000)))
}
