/** Forks that end so give their keys back: one captured nothing, the other's content goes on under another key. */
const GIVE_BACK: ReadonlySet<string | null | undefined> = new Set(['fork_failed', 'adopted'])

/** Whether a workspace that ended for this reason gives its key back. A key of any other deleted workspace stays used. */
export function givesKeyBack(ended_reason: string | null | undefined): boolean {
  return GIVE_BACK.has(ended_reason)
}
