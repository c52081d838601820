import { parentPort } from 'node:worker_threads'
import { systemClock } from '../../../lib/clock.ts'
import { openBlobFiles } from './blob-files.ts'
import { BlobError } from './blobs.ts'
import { runSearch } from './search-run.ts'
import type { SearchAnswer, SearchOrder } from './search.ts'

// A thread of its own, because matching would block all other calls of the main thread.
parentPort?.on('message', ({ folder, within_ms, ...task }: SearchOrder) => {
  const blobs = openBlobFiles(folder, systemClock)
  const until_ms = performance.now() + within_ms
  void runSearch({ blobs }, { ...task, until_ms })
    .then(
      (result): SearchAnswer => ({ result }),
      (error: unknown): SearchAnswer => {
        if (!(error instanceof BlobError)) throw error // ends the thread, and so fails the search
        return { trouble: { kind: error.kind, digest: error.digest } }
      },
    )
    .then((answer) => parentPort?.postMessage(answer))
})
