import { LIMITS } from '../../../../contract/limits.ts'
import type { LayerEntry } from '../../../../contract/internal/host-layers.ts'
import { fail } from '../../../lib/fail.ts'
import type { Load, LayerDirectory } from './overlay.ts'
import { readDirectories, readLists, wantLists } from './store.ts'
import type { CallDeps, ReadDeps } from '../../calls/deps.ts'

/** @throws until the file lists of all layers exist */
export async function needLists({ db, reads }: ReadDeps & Pick<CallDeps, 'db'>, layers: readonly string[], now: Date): Promise<void> {
  const wanted = [...new Set(layers)]
  const known = new Map((await readLists(reads, wanted)).map((list) => [list.layer, list]))
  const missing = wanted.filter((layer) => known.get(layer)?.state !== 'ready')
  if (missing.length === 0) return
  const before = new Date(now.getTime() - LIMITS.template_file.retry_seconds * 1000)
  await wantLists(db, missing, now, before)
  const is_lost = missing.some((layer) => {
    const list = known.get(layer)
    return list?.state === 'unavailable' && list.updated_at >= before
  })
  if (is_lost)
    throw fail('conflict', 'file_list_unavailable', 'The files of the version cannot be listed: the image of a layer is not there')
  throw fail('conflict', 'file_list_indexing', 'The list of files is being made: ask again in a few seconds')
}

/** The cache lives for one call. */
export function loader({ reads }: ReadDeps): Load {
  const loaded = new Map<string, Map<string, LayerEntry> | null>()
  const keyOf = ({ layer, path }: LayerDirectory) => `${layer}${path}`
  return async (places) => {
    const missing = places.filter((place) => !loaded.has(keyOf(place)))
    if (missing.length > 0) {
      const found = await readDirectories(reads, missing)
      missing.forEach((place, at) => {
        const entries = found[at] ?? null
        loaded.set(keyOf(place), entries && new Map(entries.map((entry) => [entry.name, entry])))
      })
    }
    return places.map((place) => loaded.get(keyOf(place)) ?? null)
  }
}
