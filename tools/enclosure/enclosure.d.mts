import type { ChildProcess } from 'node:child_process'

export const INSIDE_VARIABLE: string
export const KEPT_VARIABLE: string
export function canEnclose(): boolean
export function startEnclosed(
  command: readonly string[],
  options?: { env?: NodeJS.ProcessEnv; shown?: readonly string[]; ipc?: boolean; hostd?: string | undefined },
): { child: ChildProcess; ended: Promise<number>; note(more: { hostd: string }): void }
export function sweepEnclosures(): void
