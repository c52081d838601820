/** See the specification (App, "Principal"). */
export const TOOLS = ['exec', 'files', 'pty', 'process', 'git', 'browser'] as const
export type Tool = (typeof TOOLS)[number]
