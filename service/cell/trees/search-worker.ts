import { parentPort, workerData } from 'node:worker_threads'
import { systemClock } from '../../lib/clock.ts'
import { openBlobFiles } from './blob-files.ts'
import { BlobTrouble } from './blobs.ts'
import { runSearch } from './search-run.ts'
import type { SearchAnswer, SearchOrder } from './search.ts'

// One search, in a thread of its own: matching would stand in the way of everybody else's calls.
const { folder, within_ms, ...task } = workerData as SearchOrder
const blobs = openBlobFiles(folder, systemClock)
const answer: SearchAnswer = await runSearch({ blobs }, { ...task, until_ms: performance.now() + within_ms }).then(
  (result) => ({ result }),
  (error: unknown) => {
    if (!(error instanceof BlobTrouble)) throw error
    return { trouble: { kind: error.kind, digest: error.digest } }
  },
)
parentPort?.postMessage(answer)
