import type { WorkspaceQuery } from '../../../contract/schemas/workspaces.ts'
import type { Reader } from '../../db/reader.ts'
import type { Principal } from '../../http/call.ts'
import { organizationIds } from '../organizations/view.ts'
import type { Page } from '../pages.ts'
import type { WorkspaceRow } from './row.ts'
import { WORKSPACE_TEXT } from './store.ts'

type Filters = Omit<WorkspaceQuery, 'limit' | 'cursor'>

/** One row more than the page holds, newest first. Each combination of filters is a statement of its own, so that each has its plan. */
export function findWorkspaces(reads: Reader, who: Principal, filters: Filters, page: Page): Promise<WorkspaceRow[]> {
  const conditions = conditionsOf(who, filters, page)
  const where = conditions.map(({ text }, index) => text.replace('?', `$${index + 1}`)).join(' and ')
  const values = [...conditions.map(({ value }) => value), page.limit + 1]
  const text = `${WORKSPACE_TEXT} where ${where} order by w.id desc limit $${values.length}`
  return reads.rows(`workspaces.list:${conditions.map(({ name }) => name).join('+')}`, text, values)
}

interface Condition {
  /** Short: PostgreSQL keeps 63 characters of a statement's name. */
  name: string
  text: string
  value: unknown
}

function conditionsOf(who: Principal, filters: Filters, page: Page): Condition[] {
  const of = (name: string, text: string, value: unknown): Condition[] =>
    value === undefined || value === null ? [] : [{ name, text, value }]
  const { lifetime, purpose } = filters
  return [
    ...(who.type === 'api_key'
      ? of('p', 'w.project_id = ?', who.project_id)
      : of('gs', 'w.organization_id = any(?::uuid[])', organizationIds(who))),
    ...of('ig', 'w.organization_id = ?', filters.organization_id),
    ...of('ip', 'w.project_id = ?', filters.project_id),
    ...of('s', 'w.observed_state = ?', filters.state),
    ...of('d', 'w.desired_state = ?', filters.desired_state),
    ...of('k', 'starts_with(w.key, ?)', filters.key_prefix),
    ...of('l', 'w.lifetime = ?', lifetime === 'any' ? null : lifetime),
    ...of('u', 'w.purpose = ?', purpose === 'any' ? null : purpose),
    ...of('v', '(w.deleted_at is null) = ?', showsDeleted(filters) ? null : true),
    ...of('b', 'w.id < ?', page.below),
  ]
}

/** DECISIONS, "Shapes": asking for a state that only deleted ones have means them. */
function showsDeleted({ include_deleted, state, desired_state }: Filters): boolean {
  const of_the_deleted = new Set<string | undefined>(['deleting', 'deleted'])
  return include_deleted === true || of_the_deleted.has(state) || of_the_deleted.has(desired_state)
}
