import { sql } from 'kysely'
import type { LayerList } from '../../../../contract/internal/host-layers.ts'
import { pathKey } from '../../../core/templates/layer-lists/path-key.ts'
import type { Db } from '../../../db/database.ts'

export interface WantedList {
  layer: string
  reached: string | null
}

export function wantedLists(db: Db, limit: number): Promise<WantedList[]> {
  return db
    .selectFrom('layer_lists')
    .select(['layer', 'reached'])
    .where('state', '=', 'wanted')
    .orderBy('updated_at')
    .limit(limit)
    .execute()
}

/** Existing rows are not changed, because a concurrent process writes the same content. */
export async function writePiece(db: Db, layer: string, { directories, done }: LayerList, now: Date): Promise<void> {
  await db.transaction().execute(async (tx) => {
    for (const { path, entries } of directories) {
      await tx
        .insertInto('layer_directories')
        .values({ layer, path_sha256: pathKey(path), entries: JSON.stringify(entries) })
        .onConflict((conflict) => conflict.doNothing())
        .execute()
    }
    await tx
      .updateTable('layer_lists')
      .set({ ...(done ? { state: 'ready' } : {}), reached: directories.at(-1)?.path ?? null, updated_at: now })
      .where('layer', '=', layer)
      .where('state', '=', 'wanted')
      .execute()
  })
}

export async function markUnavailable(db: Db, layer: string, now: Date): Promise<void> {
  const wanted = db.updateTable('layer_lists').where('layer', '=', layer).where('state', '=', 'wanted')
  await wanted.set({ state: 'unavailable', updated_at: now }).execute()
}

/** A small number, because a list may have 100,000 directories, which are deleted with it. */
const LISTS_A_STATEMENT = 5

/** Removes lists that no version uses. A list that is requested again is made again. */
export async function dropUnusedLists(db: Db, before: Date): Promise<void> {
  for (let is_all = false; !is_all;) {
    // Reads the layers of all versions once, not for each list.
    const { rows } = await sql`delete from layer_lists where layer = any(array(
      select l.layer from layer_lists l where l.updated_at < ${before}
        and not exists (select from (select unnest(v.layers) as layer from template_versions v) named where named.layer = l.layer)
      limit ${LISTS_A_STATEMENT})) returning layer`.execute(db)
    is_all = rows.length < LISTS_A_STATEMENT
  }
}
