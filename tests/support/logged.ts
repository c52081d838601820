import pino, { type Logger } from 'pino'

/** A logger that collects its lines for a test. */
export function collectingLog(lines: string[]): Logger {
  return pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) })
}
