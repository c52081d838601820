import { LIMITS } from '../../../contract/limits.ts'
import { DESIRED_STATES, LIFETIMES, PURPOSES, type WorkspaceQuery } from '../../../contract/schemas/workspaces.ts'
import type { Reader } from '../../db/reader.ts'
import type { Principal } from '../../http/call.ts'
import { organizationIds } from '../../core/people/organizations/store.ts'
import type { Page } from '../calls/pages.ts'
import type { WorkspaceRow } from './row.ts'
import { WORKSPACE_TEXT } from './store.ts'

type Filters = Omit<WorkspaceQuery, 'limit' | 'cursor'>

/** Returns at least one row more than the page holds, if more exist. */
export async function findWorkspaces(reads: Reader, who: Principal, filters: Filters, page: Page): Promise<WorkspaceRow[]> {
  let rows: WorkspaceRow[] = []
  for (const { name, text, values } of listStatements(who, filters, page)) {
    rows = await reads.rows(name, text, values)
    if (rows.length > page.limit) break
  }
  return rows
}

interface Statement {
  name: string
  text: string
  values: unknown[]
}

/**
 * The statements run in order until the page is full; the last one finds all rows. A common key prefix fills the page from the newest
 * workspaces.
 * A rare prefix needs the index by key, which has another order.
 */
function listStatements(who: Principal, filters: Filters, page: Page): Statement[] {
  const scope = scopeOf(who, filters)
  if (scope === null) return []
  const asked = { scope, filters, page, rows_max: ROWS_MAX.find((rows) => rows > page.limit) ?? LIMITS.page.size_max + 1 }
  return filters.key_prefix ? [newestWithPrefix(asked, filters.key_prefix), allWithPrefix(asked, filters.key_prefix)] : [newest(asked)]
}

interface Asked {
  scope: Scope
  filters: Filters
  page: Page
  rows_max: number
}

/**
 * The limits are literals, with few values. With a parameter PostgreSQL would assume a tenth of all rows and plan each call: 0.5 ms, longer
 * than reading the page.
 */
const ROWS_MAX = [11, LIMITS.page.size_default + 1, LIMITS.page.size_max + 1]
const NEWEST_LOOKED_AT = 1000

function newest(asked: Asked): Statement {
  const values = new Values()
  const ids = `select b.id from ${branches(asked, values, asked.rows_max)} order by b.id desc limit ${asked.rows_max}`
  return statementOf(asked, 'n', ids, values)
}

function newestWithPrefix(asked: Asked, prefix: string): Statement {
  const values = new Values()
  const ids = `select b.id from ${branches(asked, values, NEWEST_LOOKED_AT)} order by b.id desc limit ${NEWEST_LOOKED_AT}`
  return statementOf(asked, 'k', ids, values, `and starts_with(w.key, ${values.next(prefix)})`)
}

function allWithPrefix(asked: Asked, prefix: string): Statement {
  const values = new Values()
  const { desired_states, lifetimes, purposes } = meant(asked.filters)
  const end = endOfPrefix(prefix)
  const ids = `select w.id from projects p join workspaces w on w.project_id = p.id
    where ${asked.scope.text(values)} and w.key ~>=~ ${values.next(prefix)} ${end === null ? '' : `and w.key ~<~ ${values.next(end)}`}
      and w.desired_state in (${listed(desired_states)}) and w.lifetime in (${listed(lifetimes)}) and w.purpose in (${listed(purposes)})
      ${parameters(asked, values)}
    order by w.id desc limit ${asked.rows_max}`
  return statementOf(asked, end === null ? 'e' : 'r', ids, values)
}

/** An index (migration 0010) has the order of each branch, so only rows of the page are read. */
function branches(asked: Asked, values: Values, rows_max: number): string {
  const { desired_states, lifetimes, purposes } = meant(asked.filters)
  return `(select id from projects p where ${asked.scope.text(values)}) p
    cross join (values ${rowsOf(desired_states)}) d(desired_state)
    cross join (values ${rowsOf(lifetimes)}) l(lifetime)
    cross join (values ${rowsOf(purposes)}) u(purpose)
    cross join lateral (
      select w.id from workspaces w
      where w.project_id = p.id and w.desired_state = d.desired_state and w.lifetime = l.lifetime and w.purpose = u.purpose
        ${parameters(asked, values)}
      order by uuid_send(w.id) desc limit ${rows_max}
    ) b`
}

function parameters({ filters, page }: Asked, values: Values): string {
  const state = filters.state === undefined ? '' : `and w.observed_state = ${values.next(filters.state)}`
  return page.below === null ? state : `${state} and uuid_send(w.id) < uuid_send(${values.next(page.below)}::uuid)`
}

/** Each combination of filters has its own plan and name. PostgreSQL uses only 63 characters of a name. */
function statementOf({ scope, filters, page, rows_max }: Asked, kind: string, ids: string, values: Values, more = ''): Statement {
  const { desired_states, lifetimes, purposes } = meant(filters)
  const initials = [desired_states, lifetimes, purposes].map((all) => all.map((each) => each.replace('template_', '').charAt(0)).join(''))
  const name = [kind, rows_max, scope.name, ...initials, filters.state === undefined ? '' : 's', page.below === null ? '' : 'b'].join(':')
  const text = `${WORKSPACE_TEXT} where w.id = any(array(${ids})) ${more} order by w.id desc limit ${rows_max}`
  return { name: `workspaces.list:${name}`, text, values: values.all }
}

class Values {
  readonly all: unknown[] = []

  next(value: unknown): string {
    return `$${this.all.push(value)}`
  }
}

interface Scope {
  name: string
  text(values: Values): string
}

/** null: no project. */
function scopeOf(who: Principal, { organization_id, project_id }: Filters): Scope | null {
  const organizations = organizationIds(who).filter((id) => organization_id === undefined || id === organization_id)
  if (organizations.length === 0) return null
  if (who.type === 'api_key') {
    if (project_id !== undefined && project_id !== who.project_id) return null
    return { name: 'p', text: (values) => `p.id = ${values.next(who.project_id)}` }
  }
  const of_them = (values: Values) => `p.organization_id = any(${values.next(organizations)}::uuid[])`
  if (project_id === undefined) return { name: 'g', text: of_them }
  return { name: 'gp', text: (values) => `${of_them(values)} and p.id = ${values.next(project_id)}` }
}

/** The values become literals, so that the planner sees how many there are. */
function meant(filters: Filters) {
  const { desired_state, lifetime = 'persistent', purpose = 'standard' } = filters
  const states = desired_state === undefined ? DESIRED_STATES : [desired_state]
  return {
    desired_states: showsDeleted(filters) ? states : states.filter((state) => state !== 'deleted'),
    lifetimes: lifetime === 'any' ? LIFETIMES : [lifetime],
    purposes: purpose === 'any' ? PURPOSES : [purpose],
  }
}

function showsDeleted({ include_deleted, state, desired_state }: Filters): boolean {
  const of_the_deleted = new Set<string | undefined>(['deleting', 'deleted'])
  return include_deleted === true || of_the_deleted.has(state) || of_the_deleted.has(desired_state)
}

function rowsOf(values: readonly string[]): string {
  return values.map((value) => `('${value}')`).join(', ')
}

function listed(values: readonly string[]): string {
  return values.map((value) => `'${value}'`).join(', ')
}

const SURROGATES = { first: 0xd800, after: 0xe000 }
const CODE_POINT_MAX = 0x10ffff

/** @returns the first text after all texts with the prefix; null: none. Code point order equals UTF-8 order. */
export function endOfPrefix(prefix: string): string | null {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0)
  while (points.at(-1) === CODE_POINT_MAX) points.pop()
  const last = points.pop()
  if (last === undefined) return null
  const next = last + 1 === SURROGATES.first ? SURROGATES.after : last + 1
  return String.fromCodePoint(...points, next)
}
