import type { Selectable } from 'kysely'
import { TOOLS, type Tool } from '../../contract/route.ts'
import type { Db } from '../db/database.ts'
import type { Database } from '../db/schema.ts'
import type { Clock } from '../lib/clock.ts'
import type { Ids } from '../lib/ids.ts'
import type { AuditTarget, AuditTargetKind } from '../core/changes/audit.ts'
import type { ChangeTx } from '../core/changes/mutate.ts'
import { findOrganization, findProject } from '../core/people/organizations/store.ts'

/** Data is written to stdout, messages for people to stderr. */
export interface Output {
  line(text: string): void
  note(text: string): void
}

export interface Context {
  db: Db
  output: Output
  clock: Clock
  ids: Ids
  base_url?: string
  secret_keys_dir?: string
  secret_keys_command?: string
  layers_dir?: string
  /** Work and audit record are one transaction. The command has only one database connection. */
  change<Result>(
    action: string,
    work: (tx: ChangeTx) => Promise<Result>,
    subject: AuditTarget | ((result: Result) => AuditTarget | null),
  ): Promise<Result>
}

/** A target without an owner belongs to the whole installation. */
export function subjectOf(
  kind: AuditTargetKind,
  id: string,
  owner: { organization_id?: string; project_id?: string } = {},
  details: NonNullable<AuditTarget['details']> = {},
): AuditTarget {
  return { kind, id, organization_id: owner.organization_id ?? null, project_id: owner.project_id ?? null, details }
}

export interface Command {
  synopsis: string
  /** The command may remove a right. It then waits until every process has applied the removal. */
  revokes?: true
  run(argv: string[], context: Context): Promise<void>
}

/** Exit code 1: the state does not allow the command. */
export class AdminError extends Error {}
/** Exit code 2: the command is malformed. */
export class UsageError extends Error {}

const SLUG = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const UNIQUE_VIOLATION = '23505'

export function required(value: string | undefined, name: string): string {
  if (value === undefined || value === '') throw new UsageError(`${name} is missing`)
  return value
}

export function words<const N extends string>(positionals: string[], ...names: N[]): Record<N, string> {
  if (positionals.length > names.length) throw new UsageError(`${String(positionals[names.length])} is one word too many`)
  return Object.fromEntries(names.map((name, at) => [name, required(positionals[at], name.toUpperCase())])) as Record<N, string>
}

export function slugOf(value: string | undefined, name: string): string {
  const slug = required(value, name)
  if (!SLUG.test(slug)) throw new UsageError(`${name} must be small letters, digits and hyphens, 63 at most`)
  return slug
}

export function toolsOf(value: string | undefined): Tool[] {
  const names = new Set(required(value, '--tools').split(','))
  const unknown = [...names].filter((name) => !TOOLS.some((tool) => tool === name))
  if (unknown.length > 0) throw new UsageError(`${unknown.join(', ')}: the tools are ${TOOLS.join(', ')}`)
  return TOOLS.filter((tool) => names.has(tool))
}

export function wholeNumber(value: string, name: string, min: number): number {
  const number = Number(value)
  if (!/^\d+$/.test(value) || !Number.isSafeInteger(number) || number < min || number > 2_147_483_647) {
    throw new UsageError(`${name} must be a whole number from ${min}`)
  }
  return number
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export function idOf(value: string, name: string): string {
  if (!UUID.test(value)) throw new UsageError(`${name} must be an id, as the list shows it`)
  return value
}

export function momentOf(value: string, name: string): Date {
  const at = new Date(value)
  if (Number.isNaN(at.getTime())) throw new UsageError(`${name} must be a time such as 2030-01-31T12:00:00Z`)
  return at
}

export function oneOf<const T extends string>(value: string, choices: readonly T[], name: string): T {
  const found = choices.find((choice) => choice === value)
  if (found === undefined) throw new UsageError(`${name} must be one of ${choices.join(', ')}`)
  return found
}

export async function organizationOf(db: Db, slug: string | undefined): Promise<Selectable<Database['organizations']>> {
  const found = await findOrganization(db, required(slug, '--organization'))
  if (found === undefined || found.deleting_at !== null) throw new AdminError(`There is no organization ${String(slug)}`)
  return found
}

export async function projectOf(db: Db, organization_id: string, slug: string | undefined): Promise<Selectable<Database['projects']>> {
  const found = await findProject(db, organization_id, required(slug, '--project'))
  if (found === undefined) throw new AdminError(`There is no project ${String(slug)} in this organization`)
  return found
}

export async function unlessTaken(what: string, insert: () => Promise<unknown>): Promise<void> {
  try {
    await insert()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === UNIQUE_VIOLATION) throw new AdminError(`${what} exists already`)
    throw error
  }
}

export function show(output: Output, rows: Record<string, unknown>[], as_json: boolean | undefined): void {
  if (as_json === true) return output.line(JSON.stringify(rows, null, 2))
  const [first] = rows
  if (first === undefined) return output.note('none')
  const table = [Object.keys(first), ...rows.map((row) => Object.values(row).map(cell))]
  const widths = Object.keys(first).map((_, column) => Math.max(...table.map((line) => line[column]?.length ?? 0)))
  for (const line of table)
    output.line(
      line
        .map((text, column) => text.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.join(',')
  return typeof value === 'string' ? value : JSON.stringify(value)
}
