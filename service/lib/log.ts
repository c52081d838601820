import { writeSync } from 'node:fs'
import pino, { type Logger } from 'pino'

export interface ProcessLog {
  logger: Logger
  /** Lines that could not be written since the process began. */
  dropped(): number
}

export interface LogOptions {
  level: string
  base: Record<string, string>
  /** In tests: another place than standard output. @returns how many bytes it took */
  write?(bytes: Buffer): number
}

/**
 * The log of a process, on its standard output. A line that cannot be written is dropped and counted: the disk of the log may be full, and
 * pino's own destination ends the process then.
 */
export function openLog({ level, base, write = toStandardOutput }: LogOptions): ProcessLog {
  let dropped = 0
  let told = 0
  let is_torn = false
  const put = (line: string): boolean => {
    // After half a line, the next one begins on a line of its own.
    let rest = Buffer.from(is_torn ? `\n${line}` : line)
    const all = rest.length
    try {
      while (rest.length > 0) {
        const taken = write(rest)
        if (taken <= 0) break
        rest = rest.subarray(taken)
      }
    } catch {
      // The pipe is full or has no reader. Only the count can say so.
    }
    if (rest.length < all) is_torn = rest.length > 0
    if (rest.length > 0) dropped += 1
    return rest.length === 0
  }
  const logger = pino(
    { level, base },
    {
      write(line: string) {
        if (!put(line) || dropped === told) return
        const lost = dropped - told
        told = dropped
        logger.warn({ dropped: lost }, 'lines of the log could not be written')
      },
    },
  )
  return { logger, dropped: () => dropped }
}

const STANDARD_OUTPUT = 1

function toStandardOutput(bytes: Buffer): number {
  return writeSync(STANDARD_OUTPUT, bytes)
}

/** What Node itself writes (warnings) ends the process in the same way, unless an error has a listener. */
export function surviveFullOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
}
