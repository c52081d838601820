/** Key pairs, not these keys, sign tool tokens. */
export const PURPOSES = ['cursor', 'idempotency'] as const
export type Purpose = (typeof PURPOSES)[number]

/** A signature without a key id belongs to it. */
export const FIRST_KEY_ID = '00000000'

/** By then every process has read an announced key. */
export const ANNOUNCED_MS = 10_000

/** Returns the newest key that every process knows; else the oldest. */
export function activeOf<Key extends { created_at: Date }>(keys: readonly Key[], now: Date): Key | undefined {
  const sorted = [...keys].sort((one, other) => one.created_at.getTime() - other.created_at.getTime())
  return sorted.findLast(({ created_at }) => created_at.getTime() + ANNOUNCED_MS <= now.getTime()) ?? sorted[0]
}
