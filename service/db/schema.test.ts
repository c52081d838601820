import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { sql } from 'kysely'
import ts from 'typescript'
import { freshDatabase } from '../../tests/support/postgres.ts'

/** A column as schema.ts declares it. `optional`: an insert may omit it. */
interface Column {
  kind: string
  nullable: boolean
  optional: boolean
}

type Tables = Record<string, Record<string, Column>>

const KINDS: Record<string, string> = {
  uuid: 'text',
  text: 'text',
  numeric: 'text', // may exceed a number
  boolean: 'boolean',
  bytea: 'bytes',
  jsonb: 'json',
  integer: 'number',
  bigint: 'number',
  real: 'number',
  'double precision': 'number',
  'timestamp with time zone': 'time',
  'text[]': 'text[]',
  'uuid[]': 'text[]',
  'integer[]': 'number[]',
  'real[]': 'number[]',
}

const FILLED_BY_A_TRIGGER = ['operations.subject_id']

test('schema.ts matches the tables and columns of the database, with types, nulls and defaults', async () => {
  await using database = await freshDatabase()
  const { rows } = await sql<{ table: string; column: string; type: string; nullable: boolean; has_default: boolean }>`
    select c.relname as "table", a.attname as "column", format_type(a.atttypid, null) as type, not a.attnotnull as nullable, a.atthasdef as has_default
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname not like 'kysely_%' and a.attnum > 0 and not a.attisdropped`.execute(
    database.superuser,
  )
  const declared = await declaredTables()
  const actual: Tables = {}
  for (const { table, column, type, nullable, has_default } of rows) {
    const kind = KINDS[type] ?? type
    // schema.ts may require a column that has a default.
    const given = nullable || has_default || FILLED_BY_A_TRIGGER.includes(`${table}.${column}`)
    const optional = (declared[table]?.[column]?.optional ?? false) && given
    actual[table] = { ...actual[table], [column]: { kind, nullable, optional } }
  }
  assert.deepEqual(declared, actual)
})

async function declaredTables(): Promise<Tables> {
  const files = (await readdir(import.meta.dirname)).filter((name) => /^schema(-(?!version)\w+)?\.ts$/.test(name))
  const texts = await Promise.all(files.map((name) => readFile(new URL(`./${name}`, import.meta.url), 'utf8')))
  const source = ts.createSourceFile('schema.ts', texts.join('\n'), ts.ScriptTarget.Latest, true)
  const interfaces = new Map(source.statements.filter(ts.isInterfaceDeclaration).map((one) => [one.name.text, one]))
  const members = (name: string) => {
    const all: readonly ts.TypeElement[] = interfaces.get(name)?.members ?? []
    return all.filter(ts.isPropertySignature)
  }
  const typeOf = (member: ts.PropertySignature) => member.type?.getText(source) ?? ''
  return Object.fromEntries(
    members('Database').map((table) => [
      table.name.getText(source),
      Object.fromEntries(members(typeOf(table)).map((one) => [one.name.getText(source), columnOf(typeOf(one))])),
    ]),
  )
}

/** Short forms of schema.ts: the type that is read (null: the argument's), and whether an insert may omit the column. */
const FORMS: [form: RegExp, kind: string | null, optional: boolean][] = [
  [/^Json<.*>$/, 'json', false],
  [/^NullableJson<.*>$/, 'json', false],
  [/^JsonWithDefault<.*>$/, 'json', true],
  [/^Int8$/, 'number', false],
  [/^Int8WithDefault$/, 'number', true],
  [/^Generated<(.*)>$/, null, true],
]

function columnOf(type: string): Column {
  const nullable = /^NullableJson</.test(type) || /\| null$/.test(type)
  const found = FORMS.find(([form]) => form.test(type))
  if (found !== undefined) {
    const [form, kind, optional] = found
    const inner = form.exec(type)?.[1]
    if (kind !== null) return { kind, nullable, optional }
    return { ...columnOf(inner ?? ''), optional }
  }
  const written = /^ColumnType<(.*)>$/.exec(type)
  if (written === null) return { kind: kindOf(type), nullable, optional: false }
  const [selected = '', inserted = ''] = splitArguments(written[1] ?? '')
  return { kind: kindOf(selected), nullable: /\| null$/.test(selected), optional: /\bundefined\b/.test(inserted) }
}

function kindOf(type: string): string {
  const plain = type.replace(/ \| null$/, '')
  const kinds: [form: RegExp, kind: string][] = [
    [/^string\[\]$/, 'text[]'],
    [/^number\[\]$/, 'number[]'],
    [/^(string|'.*'|ReasonOf<.*>|OperationSubject|EgressMode|EmailTokenPurpose|MailKind|Allowance|AlertSubject)$/, 'text'],
    [/^(InvoiceState|ExportState|ExportFailure)$/, 'text'],
    [/^number$/, 'number'],
    [/^(boolean|true|false)$/, 'boolean'],
    [/^Date$/, 'time'],
    [/^Buffer$/, 'bytes'],
    [/^object$/, 'json'],
  ]
  return kinds.find(([form]) => form.test(plain))?.[1] ?? `a type that this test does not know: ${type}`
}

function splitArguments(text: string): string[] {
  const parts: string[] = []
  let [depth, part] = [0, '']
  for (const character of `${text},`) {
    if (character === '<') depth += 1
    if (character === '>') depth -= 1
    if (character === ',' && depth === 0) {
      parts.push(part.trim())
      part = ''
    } else part += character
  }
  return parts
}
