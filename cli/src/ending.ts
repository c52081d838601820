import { constants } from 'node:os'
import { escapeLines } from './print.ts'

export function terminalSize(): { cols?: number; rows?: number } {
  const { columns, rows } = process.stdout as { columns?: number; rows?: number }
  return { ...(columns ? { cols: columns } : {}), ...(rows ? { rows } : {}) }
}

/** Sends the caller's TERM, which may be that of tmux or screen. */
export function terminalEnv(): { TERM: string } {
  return { TERM: process.env['TERM'] || 'xterm-256color' }
}

interface CommandEnding {
  state: string
  exit_code: number | null
  term_signal: string | null
  error: string | null
  timed_out?: boolean
  reason?: string | null
}

/** As in shells: 128 plus the signal; 127: no such program; 125: the ending is unknown. */
export function exitCodeOf(ended: CommandEnding | null): number {
  if (ended === null) return 125
  const { state, exit_code, term_signal, error, timed_out = false, reason = null } = ended
  if (state === 'failed_to_start') process.stderr.write(`berth: ${escapeLines(error ?? 'it could not start')}\n`)
  if (state === 'failed_to_start') return 127
  if (timed_out) process.stderr.write('berth: the time for the command was over\n')
  if (reason !== null) process.stderr.write(`berth: a process was ended: ${REASONS[reason] ?? escapeLines(reason)}\n`)
  const signals: Partial<Record<string, number>> = constants.signals
  if (term_signal !== null) return 128 + (signals[term_signal] ?? 0)
  return exit_code ?? 125
}

const REASONS: Partial<Record<string, string>> = {
  out_of_memory: 'the workspace had no memory left (out_of_memory)',
  process_limit: 'the workspace had too many processes (process_limit)',
}

/** Waits until a slow reader accepts the bytes, so large output does not fill memory. */
export function writeFully(stream: NodeJS.WriteStream, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(bytes, (error) => (error ? reject(error) : resolve()))
  })
}
