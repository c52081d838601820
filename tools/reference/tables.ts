import {
  APP_CODES,
  APP_REASONS,
  CELL_CODES,
  CELL_REASONS,
  OPERATION_ERRORS,
  isRetryable,
  type CodeRule,
  type Surface,
} from '../../contract/errors.ts'
import { DETAILS, type Details } from '../../contract/details.ts'
import { LIMITS } from '../../contract/limits.ts'
import type { Route } from '../../contract/route.ts'
import {
  COMMANDS,
  DELETED_COMMANDS,
  LOCKED_COMMANDS,
  LIFETIME_COMMANDS,
  MODE_COMMANDS,
  STATE_COMMANDS,
  type Command,
  type Outcome,
} from '../../contract/states/commands.ts'
import { MACHINE_EVENTS, MACHINE_STATES } from '../../contract/states/machine.ts'
import { isTerminal, OPERATION_KINDS, OPERATION_STATES } from '../../contract/states/operation.ts'
import { boundsText, code, PROPERTY_HEADS, propertyRows, table, typeText, type Schema } from './schema-text.ts'

type Reasons = Partial<Record<string, readonly string[]>>

export function errorsPage(): string {
  return page(
    'Errors',
    'Every answer that is not 2xx has this envelope. Branch on `code` and `details.reason`, never on `message`; treat an unknown one as a generic error.',
    '```json\n{ "error": { "code": "conflict", "message": "…", "request_id": "…", "retryable": false, "details": { "reason": "not_running" } } }\n```',
    '## Codes of the application API',
    codesTable('app', APP_CODES, APP_REASONS),
    detailsTable('app'),
    '## Codes of the gateway',
    'A WebSocket is closed with 4000 and the status, after a message `{"type":"error","error":{…}}`.',
    codesTable('cell', CELL_CODES, CELL_REASONS),
    detailsTable('cell'),
    '## Errors of operations',
    table(
      ['Code', 'Retryable'],
      Object.entries(OPERATION_ERRORS).map(([name, { retryable }]) => [code(name), retryable ? 'yes' : 'no']),
    ),
  )
}

function codesTable(surface: Surface, codes: Record<string, CodeRule>, reasons: Reasons): string {
  const rows = Object.entries(codes).map(([name, { status, retryable }]) => [
    String(status),
    code(name),
    retryable ? 'yes' : 'no',
    (reasons[name] ?? [])
      .map((reason) => (!retryable && isRetryable(surface, name, reason) ? `${code(reason)} (retryable)` : code(reason)))
      .join(', '),
  ])
  return table(['Status', 'Code', 'Retryable', 'Reasons'], rows)
}

function detailsTable(surface: Surface): string {
  const declared: Readonly<Record<string, Details>> = DETAILS[surface]
  const rows = Object.entries(declared).flatMap(([refusal, details]) => {
    const [name = '', reason = ''] = refusal.split('/')
    const properties: Schema['properties'] = details
    return Object.entries(properties).map(([detail, schema]) => [
      code(name),
      reason === '' ? '' : code(reason),
      code(detail),
      typeText(schema),
      schema.description ?? '',
    ])
  })
  return table(['Code', 'Reason', 'In `details`', 'Type', 'Meaning'], rows)
}

export function limitsPage(): string {
  const rows = Object.entries(LIMITS).flatMap(([noun, bounds]) =>
    Object.entries(bounds).map(([name, value]) => [code(`${noun}.${name}`), String(value)]),
  )
  return page('Limits', 'Units are in the names.', table(['Limit', 'Value'], rows))
}

export function statesPage(): string {
  return page(
    'States',
    '## What a command does',
    'Deleted wins over mode, mode over lifetime, lifetime over the operation that holds the workspace, that over the state. A name alone is the reason of a 409 `conflict`.',
    '### By observed state, while nothing holds the workspace',
    commandTable({ ...STATE_COMMANDS, 'deleted_at is set': DELETED_COMMANDS }),
    '### By the operation that holds it',
    commandTable(LOCKED_COMMANDS),
    '### By mode and lifetime, in every state',
    commandTable({ ...MODE_COMMANDS, ...LIFETIME_COMMANDS }),
    '## What moves a workspace',
    table(
      ['Event', 'Moves'],
      MACHINE_EVENTS.map((event) => [
        code(event),
        Object.entries(MACHINE_STATES[event])
          .filter(([, to]) => to !== null)
          .map(([from, to]) => `${from} → ${to}`)
          .join(', '),
      ]),
    ),
    '## Operations',
    `Kinds: ${OPERATION_KINDS.map(code).join(', ')}.`,
    table(
      ['State', 'Left again'],
      OPERATION_STATES.map((state) => [code(state), isTerminal(state) ? 'never' : 'yes']),
    ),
  )
}

function commandTable(rows: Record<string, Partial<Record<Command, Outcome>>>): string {
  const cells = Object.entries(rows).map(([name, row]) => [
    code(name),
    ...COMMANDS.map((command) => (row[command] === undefined ? '' : outcomeText(row[command]))),
  ])
  return table(['', ...COMMANDS.map(code)], cells)
}

function outcomeText(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'refuse':
      return code(outcome.reason)
    case 'operate':
      return `starts ${outcome.operation}`
    case 'join':
      return 'the operation in progress'
    case 'proceed':
      return 'done'
    case 'by_state':
      return 'by state'
    case 'as_if_free':
      return 'by state, also where that starts an operation'
    case 'when_running':
      return `by state where it runs, else ${code(outcome.otherwise)}`
  }
}

export function schemasPage(routes: readonly Route[]): string {
  const titled = new Map<string, Schema>()
  for (const route of routes) {
    for (const part of [route.params, route.query, route.body, ...Object.values(route.answers).map(({ schema }) => schema)])
      collect(part, titled)
  }
  collect(DETAILS, titled)
  const sections = [...titled]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([title, schema]) => {
      const rows = propertyRows(schema)
      const { title: _, ...untitled } = schema
      const notes = [schema.description, boundsText(schema)].filter((each) => each !== undefined && each !== '')
      return [`## ${title}`, ...notes, rows.length === 0 ? typeText(untitled) : table(PROPERTY_HEADS, rows)].join('\n\n')
    })
  return page('Schemas', 'Clients ignore fields that they do not know.', ...sections)
}

function collect(value: unknown, titled: Map<string, Schema>): void {
  if (value === null || typeof value !== 'object') return
  const { title } = value as Schema
  if (typeof title === 'string') titled.set(title, value)
  for (const inner of Object.values(value)) collect(inner, titled)
}

function page(title: string, ...parts: string[]): string {
  return [`# ${title}`, ...parts].join('\n\n') + '\n'
}
