import { pathKey } from '../../service/core/templates/layer-lists/path-key.ts'
import type { Db } from '../../service/db/database.ts'

export async function layerList(db: Db, layer: string, names: string[]): Promise<void> {
  await db
    .insertInto('layer_lists')
    .values({ layer, state: 'ready', reached: '/', updated_at: new Date(0) })
    .execute()
  const entries = JSON.stringify(names.map((name) => ({ name, type: 'file', size_bytes: 0, mode: 0o644, uid: 0, gid: 0 })))
  await db
    .insertInto('layer_directories')
    .values({ layer, path_sha256: pathKey('/'), entries })
    .execute()
}
