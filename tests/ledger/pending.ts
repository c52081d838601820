/** Each feature removes its lines, because an observed or undeclared line must not be here. */
export const PENDING_LINES: Readonly<Record<string, readonly string[]>> = {}
