import { GRANTS, type Rights } from './grants.ts'
import type { Right } from './rights.ts'

type Role = 'api' | 'cell'
const ROLES = ['api', 'cell'] as const
const LISTED = ['select', 'insert', 'update'] as const

export function wantedRights(): Right[] {
  return tables().flatMap(([table, roles]) => ROLES.flatMap((role) => rightsOf(table, role, roles[role])))
}

/** Rights of tables that grants.ts does not name are not changed. */
export function grantChanges(actual: Right[]): string[] {
  const wanted = wantedRights()
  const kinds = new Map([...actual.filter(({ table }) => table in GRANTS), ...wanted].map((right) => [kindOf(right), right]))
  return [...kinds].sort(byKey).flatMap(([kind, right]) => changesOf(right, columnsOf(actual, kind), columnsOf(wanted, kind)))
}

function changesOf(right: Right, actual: Set<string | null>, wanted: Set<string | null>): string[] {
  const takes_table = actual.has(null) && !wanted.has(null)
  // Revoking a right on a table also revokes it on its columns, which are then granted again.
  const kept = takes_table ? new Set<string | null>() : actual
  const taken = takes_table ? [null] : [...kept].filter((column) => !wanted.has(column))
  const given = [...wanted].filter((column) => !kept.has(column))
  return [...statement('revoke', right, taken), ...statement('grant', right, given)]
}

function statement(verb: 'grant' | 'revoke', { table, role, privilege }: Right, columns: (string | null)[]): string[] {
  if (columns.length === 0) return []
  const to = verb === 'grant' ? 'to' : 'from'
  const whole = columns.includes(null) ? [`${verb} ${privilege} on ${table} ${to} ${role}`] : []
  const named = columns.filter((column) => column !== null)
  return [...whole, ...(named.length === 0 ? [] : [`${verb} ${privilege} (${named.join(', ')}) on ${table} ${to} ${role}`])]
}

function rightsOf(table: string, role: Role, rights: Rights<string>): Right[] {
  const listed = LISTED.flatMap((privilege) => {
    const columns: readonly (string | null)[] = rights[privilege] === 'all' ? [null] : (rights[privilege] ?? [])
    return columns.map((column) => ({ table, role: `berth_${role}`, privilege, column }))
  })
  return rights.delete ? [...listed, { table, role: `berth_${role}`, privilege: 'delete', column: null }] : listed
}

function tables(): [string, { [R in Role]: Rights<string> }][] {
  return Object.entries(GRANTS)
}

function kindOf({ table, role, privilege }: Right): string {
  return `${table} ${role} ${privilege}`
}

function columnsOf(rights: Right[], kind: string): Set<string | null> {
  return new Set(rights.filter((right) => kindOf(right) === kind).map(({ column }) => column))
}

function byKey([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1
}
