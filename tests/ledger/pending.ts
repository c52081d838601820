/**
 * Lines of the ledger that wait for a feature, by the feature. Whoever builds it empties its part: a line that is observed, or that
 * no route declares, must not stand here.
 */
export const PENDING_LINES: Readonly<Record<string, readonly string[]>> = {}
