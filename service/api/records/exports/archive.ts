import { createHash } from 'node:crypto'
import { padding, TAR_END, tarHead } from '../../../lib/tar-write.ts'

export interface Source {
  name: string
  about: string
  pages(): AsyncIterable<object[]>
}

export interface Bounds {
  raw_bytes_max: number
  file_bytes_max: number
}

export class TooLarge extends Error {}

interface FileFacts {
  file: string
  about: string
  rows: number
  bytes: number
  sha256: string
}

/** @throws TooLarge */
export async function* archive(sources: readonly Source[], manifest: object, now: Date, bounds: Bounds): AsyncGenerator<Buffer> {
  const files: FileFacts[] = []
  let raw = 0
  for (const source of sources) {
    for await (const { facts, content } of filesOf(source, bounds.file_bytes_max)) {
      raw += content.length
      if (raw > bounds.raw_bytes_max) throw new TooLarge()
      files.push(facts)
      yield* entry(facts.file, content, now)
    }
  }
  yield* entry('manifest.json', Buffer.from(`${JSON.stringify({ ...manifest, files }, null, 2)}\n`), now)
  yield TAR_END
}

async function* filesOf({ name, about, pages }: Source, bytes_max: number): AsyncGenerator<{ facts: FileFacts; content: Buffer }> {
  let [lines, bytes, number]: [Buffer[], number, number] = [[], 0, 1]
  const take = () => {
    const content = Buffer.concat(lines)
    const file = number === 1 ? `${name}.ndjson` : `${name}.${number}.ndjson`
    const facts = { file, about, rows: lines.length, bytes, sha256: createHash('sha256').update(content).digest('hex') }
    ;[lines, bytes, number] = [[], 0, number + 1]
    return { facts, content }
  }
  for await (const rows of pages()) {
    for (const row of rows) {
      const line = Buffer.from(`${JSON.stringify(row)}\n`)
      if (bytes > 0 && bytes + line.length > bytes_max) yield take()
      lines.push(line)
      bytes += line.length
    }
  }
  // An empty file is written, too: it shows that the source has no rows.
  if (lines.length > 0 || number === 1) yield take()
}

function* entry(name: string, content: Buffer, now: Date): Generator<Buffer> {
  const modified_ms = Math.floor(now.getTime() / 1000) * 1000
  yield tarHead({ name, type: 'file', mode: 0o600, modified_ms, size: content.length })
  yield content
  yield padding(content.length)
}
