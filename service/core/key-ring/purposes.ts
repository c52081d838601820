/** What keys of the api are for that sign in secret. Tool tokens are signed by key pairs, which are published. */
export const PURPOSES = ['cursor', 'idempotency'] as const
export type Purpose = (typeof PURPOSES)[number]

/** Of the key that every installation begins with: what names no key was signed by it. */
export const FIRST_KEY_ID = '00000000'

/** A new key signs from so long after it was announced: by then every process has read it. */
export const ANNOUNCED_MS = 10_000

/** The newest that every process knows, or the oldest where none has been known for long. Pure. */
export function activeOf<Key extends { created_at: Date }>(keys: readonly Key[], now: Date): Key | undefined {
  const sorted = [...keys].sort((one, other) => one.created_at.getTime() - other.created_at.getTime())
  return sorted.findLast(({ created_at }) => created_at.getTime() + ANNOUNCED_MS <= now.getTime()) ?? sorted[0]
}
