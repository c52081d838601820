import type { filesSearch } from '../../../../contract/routes/cell/files.ts'
import { fail } from '../../../lib/fail.ts'
import { bookmarkOf } from '../trees/bookmark.ts'
import { globProblem } from '../trees/globs.ts'
import { resolvePath } from '../trees/paths.ts'
import { patternProblem } from '../trees/search-pattern.ts'
import { createSearches } from '../trees/search.ts'
import { checkPath } from '../../gateway/files/path.ts'
import { searchOf } from '../../gateway/files/search.ts'
import { reading, type TreeHandler } from './calls.ts'
import { checkInside, found, notAFile } from './rules.ts'

/** One instance for the process, because it limits the number of threads. */
const searches = createSearches()

export const searchTreeFiles: TreeHandler<typeof filesSearch> = (call, deps, ticket) => {
  checkInside(checkPath('path', call.body.path), 'read')
  const { cursor, ...search } = searchOf(call.body)
  const begin = bookmarkOf(cursor)
  const wrong = patternProblem(search)
  if (wrong !== null) throw refused('pattern', 'The pattern is not valid', wrong)
  for (const field of ['include', 'exclude'] as const) {
    for (const [i, glob] of search[field].entries()) {
      const problem = globProblem(glob)
      if (problem !== null) throw refused(`${field}.${i}`, 'A glob is not valid', problem)
    }
  }
  return reading(deps, ticket, undefined, async (seen) => {
    const { entry } = found(await resolvePath(seen, seen.root, search.path, { follow: true }), search.path, 'read')
    if (entry.type === 'symlink') throw notAFile(search.path, entry)
    const folder = deps.trees.folder(await deps.trees.storeOf(ticket.entry.id))
    return { status: 200, body: await searches.search(ticket.entry, { folder, search, begin, entry, path: search.path }, call.signal) }
  })
}

function refused(path: string, message: string, problem: string) {
  return fail('validation_failed', null, `${message}: ${problem}`, { details: { issues: [{ path, message: problem }] } })
}
