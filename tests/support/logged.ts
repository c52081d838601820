import pino, { type Logger } from 'pino'

export function collectingLog(lines: string[]): Logger {
  return pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) })
}
