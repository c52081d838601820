import { writeSync } from 'node:fs'
import pino, { type Logger } from 'pino'

export interface ProcessLog {
  logger: Logger
  /** Number of lines that could not be written since the start. */
  dropped(): number
}

export interface LogOptions {
  level: string
  base: Record<string, string>
  /** For tests. @returns the number of bytes written */
  write?(bytes: Buffer): number
}

/**
 * The log of a process, on standard output. A line that cannot be written is dropped and counted, since the disk of the log may be full.
 * Pino's own destination would end the process in this case.
 */
export function openLog({ level, base, write = toStandardOutput }: LogOptions): ProcessLog {
  let dropped = 0
  let told = 0
  let is_torn = false
  const put = (line: string): boolean => {
    let rest = Buffer.from(is_torn ? `\n${line}` : line)
    const all = rest.length
    try {
      while (rest.length > 0) {
        const taken = write(rest)
        if (taken <= 0) break
        rest = rest.subarray(taken)
      }
    } catch {
      // Ignored: the pipe is full or has no reader, and the line is counted as dropped below.
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

/** Ignores errors of Node's own output (warnings). Without a listener a stream error would end the process. */
export function surviveFullOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
}
