import type { executionsList } from '../../../../contract/routes/cell/executions.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { readExecutions } from '../executions/store.ts'
import type { TreeHandler } from '../tree-calls/calls.ts'
import { cursorOf, listedOf, placeOf } from './rules.ts'

export const listExecutions: TreeHandler<typeof executionsList> = async (call, { db }, { entry }) => {
  const { state, cursor, limit = LIMITS.page.size_default } = call.query
  const after = cursor === undefined ? null : placeOf(cursor)
  const found = await readExecutions(db, entry.id, { state, after, limit: limit + 1 })
  const page = found.slice(0, limit)
  const last = found.length > limit ? page.at(-1) : undefined
  return { status: 200, body: { data: page.map(listedOf), next_cursor: last === undefined ? null : cursorOf(last) } }
}
