import { LIMITS } from '../../../contract/limits.ts'
import type { WorkspaceQuery } from '../../../contract/schemas/workspaces.ts'
import type { Reader } from '../../db/reader.ts'
import type { Principal } from '../../http/call.ts'
import { organizationIds } from '../organizations/view.ts'
import type { Page } from '../pages.ts'
import type { WorkspaceRow } from './row.ts'
import { WORKSPACE_TEXT } from './store.ts'

type Filters = Omit<WorkspaceQuery, 'limit' | 'cursor'>

/**
 * More rows than the page holds where there are more, newest first. Each combination of filters is a statement of its own, so that
 * each has its plan.
 */
export function findWorkspaces(reads: Reader, who: Principal, filters: Filters, page: Page): Promise<WorkspaceRow[]> {
  const conditions = conditionsOf(who, filters, page)
  const values: unknown[] = []
  const where = conditions.map(({ text, value }) => (value === NOTHING ? text : text.replace('?', `$${values.push(value)}`))).join(' and ')
  const rows_max = ROWS_MAX.find((rows) => rows > page.limit) ?? LIMITS.page_size_max + 1
  const text = `${WORKSPACE_TEXT} where ${where} order by w.id desc limit ${rows_max}`
  return reads.rows(`workspaces.list:${rows_max}:${conditions.map(({ name }) => name).join('+')}`, text, values)
}

/**
 * How many rows a statement reads. Written out, and few: for a parameter PostgreSQL reckons with a tenth of all rows, finds its kept
 * plan dear among many, and plans anew at every call (0.5 ms, more than it then takes to read the page).
 */
const ROWS_MAX = [11, LIMITS.page_size_default + 1, LIMITS.page_size_max + 1]

/**
 * In a `case`, which PostgreSQL does not look into. Bare, it reckons a known prefix by what is known of the keys and an unknown one by a
 * two-hundredth of all rows: the kept plan looks dear, and it plans anew at every call, the longer the more it knows.
 */
const KEY_STARTS = 'case when starts_with(w.key, ?) then true else false end'

/** The value of a condition that has none. */
const NOTHING = Symbol('nothing')

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
    ...(who.type === 'api_key' ? of('p', 'w.project_id = ?', who.project_id) : ofOrganizations(organizationIds(who))),
    ...of('ig', 'w.organization_id = ?', filters.organization_id),
    ...of('ip', 'w.project_id = ?', filters.project_id),
    ...of('s', 'w.observed_state = ?', filters.state),
    ...of('d', 'w.desired_state = ?', filters.desired_state),
    ...of('k', KEY_STARTS, filters.key_prefix),
    ...of('l', 'w.lifetime = ?', lifetime === 'any' ? null : lifetime),
    ...of('u', 'w.purpose = ?', purpose === 'any' ? null : purpose),
    ...of('v', 'w.deleted_at is null', showsDeleted(filters) ? null : NOTHING),
    ...of('b', 'w.id < ?', page.below),
  ]
}

/** Of one organization the index gives the rows in the order of the list; of several they are sorted. */
function ofOrganizations(ids: string[]): Condition[] {
  const [id, ...others] = ids
  if (id !== undefined && others.length === 0) return [{ name: 'g', text: 'w.organization_id = ?', value: id }]
  return [{ name: 'gs', text: 'w.organization_id = any(?::uuid[])', value: ids }]
}

/** DECISIONS, "Shapes": asking for a state that only deleted ones have means them. */
function showsDeleted({ include_deleted, state, desired_state }: Filters): boolean {
  const of_the_deleted = new Set<string | undefined>(['deleting', 'deleted'])
  return include_deleted === true || of_the_deleted.has(state) || of_the_deleted.has(desired_state)
}
