/** The key can be used again: a failed fork has no content, and an adopted one's content continues under another key. */
const GIVE_BACK: ReadonlySet<string | null | undefined> = new Set(['fork_failed', 'adopted'])

export function givesKeyBack(ended_reason: string | null | undefined): boolean {
  return GIVE_BACK.has(ended_reason)
}
