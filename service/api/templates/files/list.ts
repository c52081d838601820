import type { templateFilesList, templateFilesListOfOrganization } from '../../../../contract/routes/app/template-files.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { cursorAt, whereOf } from '../../calls/pages.ts'
import { findTemplate, findVersion } from '../find.ts'
import { loader, needLists } from './lists.ts'
import { join, Overlay, type LayerDirectory } from './overlay.ts'
import { fileView } from './view.ts'
import type { CallDeps, PageDeps } from '../../calls/deps.ts'

/** Versions never change, so a cursor can be a row number. */
export async function listFiles(
  call: Call<typeof templateFilesList> | Call<typeof templateFilesListOfOrganization>,
  deps: PageDeps & Pick<CallDeps, 'db'>,
): Promise<Reply> {
  const { params, query, now, who } = call
  const { path = '/', limit = LIMITS.page.size_default } = query
  const where = whereOf(deps.cursor_keys, call)
  const { layers } = await findVersion(deps.reads, await findTemplate(deps.reads, who, params), params.version)
  await needLists(deps, layers, now)
  const overlay = new Overlay(layers, loader(deps))
  const found = await find(overlay, path)
  if (!Array.isArray(found)) return { status: 200, body: { data: [fileView(path, found)], next_cursor: null } }
  const from = where === null ? 0 : where.readUInt32BE()
  const seen = [...(await overlay.children(found))]
  const data = seen.slice(from, from + limit).map(([name, { entry }]) => fileView(join(path, name), entry))
  return {
    status: 200,
    body: { data, next_cursor: from + limit < seen.length ? cursorAt(deps.cursor_keys, call, rows(from + limit)) : null },
  }
}

async function find(overlay: Overlay, path: string) {
  let places: LayerDirectory[] = overlay.root()
  const names = path.split('/').filter((name) => name !== '')
  for (const [at, name] of names.entries()) {
    const seen = await overlay.lookUp(places, name)
    if (seen === null) throw notThere(path)
    if (seen.entry.type !== 'directory') {
      if (at < names.length - 1) throw notThere(path)
      return seen.entry
    }
    places = seen.places
  }
  return places
}

function notThere(path: string) {
  return fail('not_found', 'path_not_found', 'The version has nothing at this path', { details: { path } })
}

function rows(count: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(count)
  return bytes
}
