/** Tool tokens are not signed with these symmetric keys, but with key pairs. */
export const PURPOSES = ['cursor', 'idempotency'] as const
export type Purpose = (typeof PURPOSES)[number]

/** The key of signatures that contain no key id. */
export const FIRST_KEY_ID = '00000000'

/** Time after which every process has read an announced key. */
export const ANNOUNCED_MS = 10_000

/** @returns the newest key that every process has read; else the oldest key. */
export function activeOf<Key extends { created_at: Date }>(keys: readonly Key[], now: Date): Key | undefined {
  const sorted = [...keys].sort((one, other) => one.created_at.getTime() - other.created_at.getTime())
  return sorted.findLast(({ created_at }) => created_at.getTime() + ANNOUNCED_MS <= now.getTime()) ?? sorted[0]
}
