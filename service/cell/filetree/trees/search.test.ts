import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../../../contract/limits.ts'
import { textFile } from '../../../../tests/support/trees.ts'
import { systemClock } from '../../../lib/clock.ts'
import { openBlobFiles } from './blob-files.ts'
import { createSearches, type SearchOrder } from './search.ts'

let folder: string
before(async () => void (folder = await mkdtemp(path.join(tmpdir(), 'berth-search-'))))
after(() => rmSync(folder, { recursive: true, force: true }))

const SLOW = '(a|b|ab)*c(a|b|ab)*c(a|b|ab)*d'

async function orderOf(text: string, pattern: string, is_regex: boolean): Promise<Omit<SearchOrder, 'within_ms'>> {
  const { entry, content } = textFile(text)
  await openBlobFiles(folder, systemClock).put([content])
  const search = {
    path: '/home/user/f',
    pattern,
    regex: is_regex,
    case_insensitive: false,
    include: [],
    exclude: [],
    max_matches: 10,
    context_lines: 0,
    max_file_bytes: LIMITS.search.file_bytes_max,
  }
  return { folder, entry, path: '/home/user/f', begin: { path: '', number: 0 }, search }
}

test('searches of one organization do not delay another organization, and each workspace has a limit of concurrent searches', async () => {
  const searches = createSearches()
  const slow = await orderOf(`${'abc'.repeat(2000)}\n`.repeat(2500), SLOW, true)
  const quick = await orderOf('needle\n', 'needle', false)
  const leaving = new AbortController()
  const never = new AbortController().signal
  await Promise.all(['a', 'b'].map((organization_id) => searches.search({ id: organization_id, organization_id }, quick, never))) // start both threads
  const greedy = { id: 'greedy', organization_id: 'a' }
  let ended = 0
  const all = Array.from({ length: LIMITS.tree_search.per_workspace_max }, () =>
    searches.search(greedy, slow, leaving.signal).then(
      () => (ended += 1),
      () => 'left',
    ),
  )
  await assert.rejects(searches.search(greedy, quick, leaving.signal), { code: 'rate_limited' })
  for (let n = 0; n < 3; n++) {
    const { matches } = await searches.search({ id: 'other', organization_id: 'b' }, quick, never)
    assert.deepEqual(
      matches.map(({ text }) => text),
      ['needle'],
    )
  }
  assert.ok(ended < 2, `${ended} slow searches ended before three of another organization`)
  leaving.abort()
  assert.deepEqual(new Set((await Promise.all(all)).map(String)).has('left'), true)
  const again = await searches.search(greedy, quick, never)
  assert.equal(again.matches.length, 1)
})
