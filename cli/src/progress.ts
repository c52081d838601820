import { escapeLine } from './print.ts'

const EVERY_MS = 100
const BAR_COLUMNS = 24

export interface Progress {
  add(bytes: number): void
  end(): void
}

/** @param total null if the size is unknown */
export function progressOf(what: string, total: number | null, { json }: { json: boolean }): Progress {
  const { stderr } = process
  if (!stderr.isTTY || json) return { add: () => undefined, end: () => undefined }
  const began_at = performance.now()
  let done = 0
  let shown_at = -EVERY_MS
  const show = () => {
    shown_at = performance.now()
    const line = lineOf({ what, done, total, seconds: (shown_at - began_at) / 1000, columns: stderr.columns || 80 })
    stderr.write(`\r\u001b[K${line}`)
  }
  return {
    add(bytes) {
      done += bytes
      if (performance.now() - shown_at >= EVERY_MS || done === total) show()
    },
    end: () => void stderr.write('\r\u001b[K'),
  }
}

/** A line wider than the terminal would wrap and could not be erased. */
export function lineOf(seen: { what: string; done: number; total: number | null; seconds: number; columns: number }): string {
  const { what, done, total, seconds, columns } = seen
  const share = total === null ? null : total === 0 ? 1 : Math.min(1, done / total)
  const bar = share === null ? '' : `[${'#'.repeat(Math.round(share * BAR_COLUMNS)).padEnd(BAR_COLUMNS)}] ${Math.floor(share * 100)} %  `
  const speed = seconds > 0.5 ? `  ${sizeOf(done / seconds)}/s` : ''
  return `${bar}${sizeOf(done)}${speed}  ${escapeLine(what)}`.slice(0, columns - 1)
}

export function sizeOf(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const at = Math.min(units.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10))
  return `${at === 0 ? Math.round(bytes) : (bytes / 1024 ** at).toFixed(1)} ${units[at] ?? ''}`
}

export function counted(stream: ReadableStream<Uint8Array>, progress: Progress): ReadableStream<Uint8Array> {
  return stream.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        progress.add(bytes.length)
        controller.enqueue(bytes)
      },
    }),
  )
}

export async function during<T>(progress: Progress, work: (progress: Progress) => Promise<T>): Promise<T> {
  try {
    return await work(progress)
  } finally {
    progress.end()
  }
}
