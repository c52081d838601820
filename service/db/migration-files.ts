import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

const FOLDER = fileURLToPath(new URL('./migrations/', import.meta.url))
export const LOCK_FILE = fileURLToPath(new URL('./migrations.lock.json', import.meta.url))
const NAME = /^(\d{4})_[a-z0-9_]+\.sql$/

export interface MigrationFile {
  name: string
  number: number
  text: string
  sha256: string
  /** True: runs outside a transaction, so each statement must be repeatable. */
  outside: boolean
  /** A process without a migration of this number or above cannot run on the schema; null: every process can. */
  needs: number | null
}

/** Hashes of all migrations. `npm run schema` writes `files`. */
export interface MigrationLock {
  files: Record<string, string>
  gaps: Record<string, string>
  /** The last migration of each release. Files up to it never change. */
  releases: Record<string, string>
}

/** @throws if a file differs from the lock */
export async function readMigrations(): Promise<MigrationFile[]> {
  const [files, lock] = await Promise.all([readMigrationFiles(), readLock()])
  const [problem] = problemsOf(files, lock)
  if (problem !== undefined) throw new Error(problem)
  return files
}

export async function readMigrationFiles(folder = FOLDER): Promise<MigrationFile[]> {
  const names = (await readdir(folder)).sort()
  return Promise.all(names.map(async (name) => migrationFile(name, await readFile(`${folder}${name}`, 'utf8'))))
}

export async function readLock(): Promise<MigrationLock> {
  return JSON.parse(await readFile(LOCK_FILE, 'utf8')) as MigrationLock // written by `npm run schema`, and reviewed
}

const MARKER = /^-- migrate: (.*)$/gm
const NEEDS = /^needs (\d{4})$/

export function migrationFile(file: string, text: string): MigrationFile {
  const [, number] = NAME.exec(file) ?? []
  if (number === undefined) throw new Error(`${file} is not the name of a migration: NNNN_words.sql`)
  let outside = false
  let needs: number | null = null
  for (const [, marker = ''] of text.matchAll(MARKER)) {
    const [, least] = NEEDS.exec(marker) ?? []
    if (least !== undefined) needs = Number(least)
    else if (marker === 'outside a transaction') outside = true
    else throw new Error(`${file}: "-- migrate: ${marker}" is neither "needs NNNN" nor "outside a transaction"`)
  }
  const sha256 = createHash('sha256').update(text).digest('hex')
  const made = { name: file.slice(0, -'.sql'.length), number: Number(number), text, sha256, outside, needs }
  if (outside) for (const statement of statementsOf(made)) checkRepeatable(file, statement)
  return made
}

const REPEATABLE = [
  /^create (unique )?index concurrently if not exists [a-z0-9_]+ on /,
  /^drop index concurrently if exists [a-z0-9_]+;$/,
  /^alter table [a-z0-9_]+ validate constraint [a-z0-9_]+;$/,
]

function checkRepeatable(file: string, statement: string): void {
  if (REPEATABLE.some((form) => form.test(statement))) return
  throw new Error(`${file}: outside a transaction only statements that may run twice stand, and this may not: ${statement}`)
}

export function statementsOf({ text }: Pick<MigrationFile, 'text'>): string[] {
  const lines = text.split('\n').filter((line) => !line.startsWith('--'))
  return lines.join('\n').match(/\S[^;]*;$/gm) ?? []
}

export function problemsOf(files: MigrationFile[], lock: MigrationLock): string[] {
  const released = releasedNames(lock)
  const there = new Set(files.map(({ name }) => name))
  const changed = files
    .filter(({ name, sha256 }) => lock.files[name] !== sha256)
    .map(({ name }) =>
      released.has(name)
        ? `${name} is released and has changed: put it back, and write a new migration`
        : `${name} is not as migrations.lock.json has it: run \`npm run schema\``,
    )
  const gone = Object.keys(lock.files)
    .filter((name) => !there.has(name))
    .map((name) => `${name} has no file: ${released.has(name) ? 'it is released, put it back' : 'run `npm run schema`'}`)
  const late = files
    .filter(({ name, number }) => !released.has(name) && number <= lastReleased(lock))
    .map(({ name }) => `${name} comes before a migration that is released: give it a higher number`)
  return [...late, ...changed, ...gone, ...numberProblems(files, lock)]
}

function numberProblems(files: MigrationFile[], { gaps }: MigrationLock): string[] {
  const numbers = files.map(({ number }) => number)
  const twice = files.filter(({ number }, at) => numbers.indexOf(number) !== at).map(({ name }) => `${name} has a number that is taken`)
  const all = Array.from({ length: Math.max(0, ...numbers) }, (_, before) => before + 1)
  const unexplained = all
    .filter((number) => !numbers.includes(number) && gaps[digits(number)] === undefined)
    .map((number) => `${digits(number)} has no file: say why in migrations.lock.json under "gaps"`)
  const filled = Object.keys(gaps)
    .filter((number) => numbers.includes(Number(number)))
    .map((number) => `${number} has a file and stands under "gaps": run \`npm run schema\``)
  return [...twice, ...unexplained, ...filled]
}

/** @throws if a released file has changed */
export function lockOf(files: MigrationFile[], old: MigrationLock): MigrationLock {
  const numbers = new Set(files.map(({ number }) => digits(number)))
  const gaps = Object.fromEntries(Object.entries(old.gaps).filter(([number]) => !numbers.has(number)))
  const young = files.filter(({ number }) => number > lastReleased(old)).map(({ name, sha256 }) => [name, sha256] as const)
  const lock = { files: { ...releasedFiles(old), ...Object.fromEntries(young) }, gaps, releases: old.releases }
  const [problem] = problemsOf(files, lock)
  if (problem !== undefined) throw new Error(problem)
  return lock
}

function releasedFiles(lock: MigrationLock): Record<string, string> {
  const names = releasedNames(lock)
  return Object.fromEntries(Object.entries(lock.files).filter(([name]) => names.has(name)))
}

function releasedNames(lock: MigrationLock): Set<string> {
  return new Set(Object.keys(lock.files).filter((name) => numberOf(name) <= lastReleased(lock)))
}

function lastReleased({ releases }: MigrationLock): number {
  return Math.max(0, ...Object.values(releases).map(numberOf))
}

export function numberOf(name: string): number {
  return Number(name.slice(0, 4))
}

function digits(number: number): string {
  return String(number).padStart(4, '0')
}
