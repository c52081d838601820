import type { LayerEntry } from '../../../../contract/internal/host-layers.ts'
import { pathKey } from '../../../core/templates/layer-lists/path-key.ts'
import type { Db } from '../../../db/database.ts'
import type { Reader } from '../../../db/reader.ts'

export interface ListState {
  layer: string
  state: 'wanted' | 'ready' | 'unavailable'
  updated_at: Date
}

export function readLists(reads: Reader, layers: readonly string[]): Promise<ListState[]> {
  return reads.rows('layer_lists.of', 'select layer, state, updated_at from layer_lists where layer = any($1::text[])', [layers])
}

/** Requests the lists. A list that failed is requested again only after a pause. */
export async function wantLists(db: Db, layers: readonly string[], now: Date, unavailable_before: Date): Promise<void> {
  await db
    .insertInto('layer_lists')
    .values([...layers].sort().map((layer) => ({ layer, state: 'wanted' as const, reached: null, updated_at: now })))
    .onConflict((conflict) =>
      conflict
        .column('layer')
        .doUpdateSet({ state: 'wanted', updated_at: now })
        .where('layer_lists.state', '=', 'unavailable')
        .where('layer_lists.updated_at', '<', unavailable_before),
    )
    .execute()
}

/** null: the layer lacks the directory. */
export async function readDirectories(reads: Reader, of: readonly { layer: string; path: string }[]): Promise<(LayerEntry[] | null)[]> {
  const rows = await reads.rows<{ at: string; entries: LayerEntry[] }>(
    'layer_directories.of',
    `select asked.at, d.entries from unnest($1::text[], $2::bytea[]) with ordinality as asked(layer, path_sha256, at)
     join layer_directories d on d.layer = asked.layer and d.path_sha256 = asked.path_sha256`,
    [of.map(({ layer }) => layer), of.map(({ path }) => pathKey(path))],
  )
  const found = new Map(rows.map(({ at, entries }) => [Number(at), entries]))
  return of.map((_, at) => found.get(at + 1) ?? null)
}
