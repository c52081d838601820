import pino, { type Logger } from 'pino'

/** A logger whose lines a test reads. */
export function collectingLog(lines: string[]): Logger {
  return pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) })
}
