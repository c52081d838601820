import { readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import type { Db } from './database.ts'

interface Column {
  table: string
  name: string
  type: string
  nullable: boolean
  has_default: boolean
  /** Definitions of checks on this column alone. */
  checks: string[]
}

/** The driver returns numeric as text, since it may exceed a number. */
const TYPES: Readonly<Record<string, string>> = {
  uuid: 'string',
  text: 'string',
  numeric: 'string',
  boolean: 'boolean',
  bytea: 'Buffer',
  jsonb: 'object',
  integer: 'number',
  bigint: 'number',
  real: 'number',
  'double precision': 'number',
  'timestamp with time zone': 'Date',
  'text[]': 'string[]',
  'uuid[]': 'string[]',
  'integer[]': 'number[]',
  'real[]': 'number[]',
}

/** Prints schema.ts from the catalog. column-types.ts has the types that the catalog does not contain. */
export async function dumpTypes(db: Db): Promise<string> {
  const columns = await readColumns(db)
  const given = await givenTypes()
  for (const key of given) {
    if (!columns.some((column) => keyOf(column) === key)) throw new Error(`column-types.ts has a type for ${key}, which is no column`)
  }
  const tables = [...Map.groupBy(columns, ({ table }) => table)]
  const members = tables.map(([table]) => `  ${table}: ${interfaceOf(table)}\n`)
  const interfaces = tables.map(
    ([table, of]) => `interface ${interfaceOf(table)} {\n${of.map((one) => `  ${one.name}: ${typeOf(one, given)}\n`).join('')}}\n`,
  )
  return `${HEAD}\nexport interface Database {\n${members.join('')}}\n\n${interfaces.join('\n')}`
}

const HEAD = `// Generated from migrations/ and column-types.ts by \`npm run schema\`.
import type { Generated } from 'kysely'
import type { ColumnTypes, Int8, Int8WithDefault, Json, JsonWithDefault } from './column-types.ts'
`

async function readColumns(db: Db): Promise<Column[]> {
  const { rows } = await sql<Column>`
    select c.relname as "table", a.attname as name, format_type(a.atttypid, null) as type, not a.attnotnull as nullable,
      a.atthasdef as has_default, array(
        select pg_get_constraintdef(k.oid) from pg_constraint k
        where k.conrelid = c.oid and k.contype = 'c' and k.conkey = array[a.attnum] order by k.conname) as checks
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname not like 'kysely_%' and a.attnum > 0 and not a.attisdropped
    order by c.relname collate "C", a.attnum`.execute(db)
  return rows
}

/** Returns the keys of the interface ColumnTypes, as `table.column`. */
async function givenTypes(): Promise<ReadonlySet<string>> {
  const text = await readFile(new URL('./column-types.ts', import.meta.url), 'utf8')
  return new Set([...text.matchAll(/^ {2}'(\w+\.\w+)': /gm)].map(([, key = '']) => key))
}

function typeOf(column: Column, given: ReadonlySet<string>): string {
  const { type, nullable, has_default } = column
  const key = keyOf(column)
  const value = given.has(key) ? `ColumnTypes['${key}']` : (checkedValues(column.checks) ?? TYPES[type])
  if (value === undefined) throw new Error(`${key} has the type ${type}: add it to TYPES`)
  const is_optional = has_default && !nullable // Kysely lets inserts omit every nullable column.
  const written = is_optional ? `Generated<${value}>` : value
  const forms: Record<string, string> = {
    jsonb: `${is_optional ? 'JsonWithDefault' : 'Json'}<${value}>`,
    bigint: is_optional ? 'Int8WithDefault' : 'Int8',
  }
  return `${forms[type] ?? written}${nullable ? ' | null' : ''}`
}

/** @returns the union of `check (column in ('one', 'other'))`; undefined: no check has this form. */
function checkedValues(checks: readonly string[]): string | undefined {
  const list = checks.map((check) => /^CHECK \(\(\w+ = ANY \(ARRAY\[(.*)\]\)\)\)$/.exec(check)?.[1]).find((found) => found !== undefined)
  return list === undefined ? undefined : [...list.matchAll(/('\w+')::text/g)].map(([, value]) => value).join(' | ')
}

function keyOf({ table, name }: Column): string {
  return `${table}.${name}`
}

function interfaceOf(table: string): string {
  return `${table.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())}Table`
}
