import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { APP_REASONS, CELL_REASONS, APP_CODES, CELL_CODES } from '../../contract/errors.ts'
import { errorsOf } from '../../contract/route-errors.ts'
import type { Route } from '../../contract/route.ts'
import { NEVER_ANSWERED, SPECIFIED, type Closed } from './closed-sets.ts'
import { EXCEPTIONS } from './exceptions.ts'
import { declaredLines, ROUTES } from './lines.ts'
import { OBSERVED_VARIABLE, WHOLE_VARIABLE } from './exchange.ts'
import { PENDING_LINES } from './pending.ts'

const EXCEPTIONS_MAX = 20
const declared = new Set(declaredLines())

test('a test observed every answer that the contract declares, or a list says what it waits for', (t) => {
  const directory = process.env[OBSERVED_VARIABLE]
  if (directory === undefined || process.env[WHOLE_VARIABLE] === undefined) {
    t.skip('only a part of the suite ran: the ledger is judged by a whole `npm test`')
    return
  }
  const observed = new Set(readdirSync(directory).flatMap((file) => readFileSync(join(directory, file), 'utf8').trim().split('\n')))
  const missing = [...declared].filter((line) => !observed.has(line))
  const excepted = EXCEPTIONS.flatMap(({ line }) => matching(line, declared))
  const pending = Object.values(PENDING_LINES).flatMap((lines) => lines.flatMap((line) => matching(line, missing)))
  const listed = new Set([...excepted, ...pending])
  assert.deepEqual(
    {
      observed_undeclared: [...observed].filter((line) => !declared.has(line)).sort(),
      not_observed: missing.filter((line) => !listed.has(line)).sort(),
      observed_exceptions: excepted.filter((line) => observed.has(line)).sort(),
      pending_that_wait_for_nothing: Object.values(PENDING_LINES).flatMap((lines) =>
        lines.filter((line) => matching(line, missing).length === 0),
      ),
    },
    { observed_undeclared: [], not_observed: [], observed_exceptions: [], pending_that_wait_for_nothing: [] },
  )
})

test('exceptions are few, have their reasons, and name declared lines', () => {
  assert.ok(EXCEPTIONS.length <= EXCEPTIONS_MAX, `${EXCEPTIONS.length}`)
  for (const { line, because } of EXCEPTIONS) {
    assert.ok(because.length > 0, line)
    assert.ok(matching(line, declared).length > 0, `${line} is not declared`)
  }
})

test('every code and reason of the specification is declared by a route, or listed with why no route answers it, never both', () => {
  for (const surface of ['app', 'cell'] as const) {
    const answered = closedOf(ROUTES.filter((route) => route.surface === surface))
    const never = Object.keys(NEVER_ANSWERED[surface])
    const specified = namesOf(SPECIFIED[surface])
    assert.deepEqual(
      {
        forgotten: specified.filter((name) => !answered.has(name) && !never.includes(name)),
        never_but_answered: never.filter((name) => answered.has(name)),
        never_but_unspecified: never.filter((name) => !specified.includes(name)),
        answered_but_unspecified: [...answered].filter((name) => !specified.includes(name)),
      },
      { forgotten: [], never_but_answered: [], never_but_unspecified: [], answered_but_unspecified: [] },
      surface,
    )
  }
})

test('the contract names only codes and reasons of the specification', () => {
  const contract = {
    app: [...Object.keys(APP_CODES), ...namesOf(APP_REASONS).filter((name) => name.includes('/'))],
    cell: [...Object.keys(CELL_CODES), ...namesOf(CELL_REASONS).filter((name) => name.includes('/'))],
  }
  for (const surface of ['app', 'cell'] as const) {
    const specified = new Set(namesOf(SPECIFIED[surface]))
    assert.deepEqual(
      contract[surface].filter((name) => !specified.has(name)),
      [],
      surface,
    )
  }
})

function matching(entry: string, lines: Iterable<string>): string[] {
  if (!entry.startsWith('* ')) return [...lines].filter((line) => line === entry)
  const answer = entry.slice(1)
  return [...lines].filter((line) => line.slice(line.indexOf(' ')) === answer)
}

function closedOf(routes: readonly Route[]): Set<string> {
  return new Set(
    routes.flatMap((route) =>
      Object.entries(errorsOf(route)).flatMap(([code, reasons]) => [
        code,
        ...reasons.filter((reason) => reason !== null).map((reason) => `${code}/${reason}`),
      ]),
    ),
  )
}

function namesOf(closed: Closed): string[] {
  return Object.entries(closed).flatMap(([code, reasons]) => [code, ...(reasons ?? []).map((reason) => `${code}/${reason}`)])
}
