import { APP_CODES, CELL_CODES, isRetryable, type CodeRule } from '../../contract/errors.ts'
import { errorsOf } from '../../contract/route-errors.ts'
import { ROLES, type Access, type KeyAccess, type PrincipalAccess } from '../../contract/access.ts'
import { contentOf, isReadOnly, pathsOf, type Answer, type CellRoute, type Route } from '../../contract/route.ts'
import { code, PROPERTY_HEADS, propertyRows, table, typeText, type Schema } from './schema-text.ts'

export function routePage(title: string, introduction: string, routes: readonly Route[]): string {
  const list = routes.map((route) => `- [\`${route.method} ${route.path}\`](#${anchor(route)}): ${route.summary}`)
  return [`# ${title}`, introduction, list.join('\n'), ...routes.map(routeText)].join('\n\n') + '\n'
}

function anchor(route: Route): string {
  return heading(route)
    .toLowerCase()
    .replaceAll(/[^a-z0-9 _-]/g, '')
    .replaceAll(' ', '-')
}

const heading = (route: Route) => `${route.method} ${route.path}`

function routeText(route: Route): string {
  return [
    `## ${heading(route)}`,
    `${route.summary}.`,
    conditions(route),
    ...parameters('Path', route.params),
    ...parameters('Query', route.query),
    ...headersText(route.headers),
    ...bodyText(route),
    ...messagesText(route),
    '**Answers**',
    answersText(route),
    '**Refusals**',
    refusalsText(route),
  ].join('\n\n')
}

function conditions(route: Route): string {
  return [
    `- Name: ${code(route.id)}`,
    ...pathsOf(route)
      .slice(1)
      .map(({ path }) => `- Also: ${code(`${route.method} ${path}`)}`),
    `- Who: ${whoText(route.access)}`,
    ...(route.surface === 'cell' ? useText(route) : []),
    ...(route.idempotent ? ['- Accepts `Idempotency-Key`'] : []),
    ...(route.waits ? ['- Honours `Prefer: wait=<seconds>`'] : []),
  ].join('\n')
}

const MACHINE = { asked: 'the machine answers; a parked one is woken first', woken: 'a parked machine is woken, and not asked' }

function useText(route: CellRoute): string[] {
  const { modes, machine, streams, reads_disk } = route
  return [
    ...(modes === undefined ? [] : [`- Modes: ${modes.map(code).join(', ')}`]),
    `- Machine: ${machine === undefined ? 'left as it is' : MACHINE[machine]}${reads_disk === true ? '; the disk of a sleeping workspace is read' : ''}`,
    ...(isReadOnly(route) ? ['- Changes nothing: served while a snapshot is captured'] : []),
    ...(streams === true ? ['- Counts as a stream, not as a call'] : []),
  ]
}

function whoText(access: Access): string {
  switch (access.kind) {
    case 'anyone':
      return 'anyone, without a credential'
    case 'tool_token':
      return `a tool token of the workspace${access.tool === 'any' ? ', whatever its tools' : ` that includes ${code(access.tool)}`}`
    case 'principal':
      return [KEYS[access.keys], peopleText(access)].filter((text) => text !== '').join('; ')
  }
}

const KEYS: Record<KeyAccess, string> = {
  any: 'a project API key',
  with_tool: 'a project API key that permits a tool',
  forbidden: '',
  unknown: '',
}

function peopleText({ within, roles, step_up }: PrincipalAccess): string {
  const is_all = ROLES.every((role) => roles.includes(role))
  const whose = within === 'self' ? '' : within === 'organization' ? ' of the organization' : ` of the ${within}'s organization`
  const who = is_all ? `a person${whose}` : `a person${whose} who is ${roles.map(code).join(' or ')}`
  return step_up === true ? `${who}, with a password check in the last 10 minutes` : who
}

function parameters(where: string, schema: Schema | undefined): string[] {
  return schema === undefined ? [] : [`**${where} parameters**`, table(PROPERTY_HEADS, propertyRows(schema))]
}

function headersText(schema: Schema | undefined): string[] {
  return schema === undefined ? [] : ['**Request headers**', table(PROPERTY_HEADS, propertyRows(schema))]
}

function bodyText(route: Route): string[] {
  if (route.body === 'bytes') return ['**Body**', `Bytes, at most ${route.body_bytes_max ?? 0}.`]
  if (route.body === undefined) return []
  const schema: Schema = route.body
  const required = route.body_optional ? 'May be left out.' : ''
  const rows = propertyRows(schema)
  return ['**Body**', ...(required === '' ? [] : [required]), rows.length === 0 ? `${typeText(schema)}.` : table(PROPERTY_HEADS, rows)]
}

function messagesText(route: Route): string[] {
  if (route.websocket === undefined) return []
  const { client, server } = route.websocket
  const one = (schema: Schema): string[] =>
    (schema.anyOf ?? [schema]).map(
      (each) =>
        `- ${Object.entries(each.properties ?? {})
          .map(([name, property]) => `${code(name)}: ${typeText(property)}`)
          .join(', ')}`,
    )
  return ['**Messages of the client**', one(client).join('\n'), '**Messages of the server**', one(server).join('\n')]
}

function answersText(route: Route): string {
  const rows = Object.entries(route.answers).map(([status, answer]) => [status, bodyOf(answer), headersOf(answer), answer.description])
  if (rows.length === 0) return 'None but refusals.'
  return table(['Status', 'Body', 'Headers', 'Meaning'], rows)
}

function bodyOf(answer: Answer): string {
  const told = Object.entries(contentOf(answer)).map(([type, schema]) => {
    if (schema === null) return code(type)
    return type === 'application/json' ? typeText(schema) : `${code(type)} of ${typeText(schema)}`
  })
  return told.length === 0 ? 'none' : told.join(' or ')
}

function headersOf({ headers = {} }: Answer): string {
  return Object.entries(headers)
    .map(([name, says]) => `${code(name)}: ${says}`)
    .join('; ')
}

function refusalsText(route: Route): string {
  const codes: Partial<Record<string, CodeRule>> = route.surface === 'app' ? APP_CODES : CELL_CODES
  const rows = Object.entries(errorsOf(route))
    .map(([name, reasons]) => ({ name, reasons, status: codes[name]?.status ?? 0, retryable: codes[name]?.retryable ?? false }))
    .sort((a, b) => a.status - b.status)
    .map(({ name, reasons, status, retryable }) => [
      String(status),
      code(name),
      reasonsText(reasons),
      retryable ? 'yes' : retryableReasons(route, name, reasons),
    ])
  return table(['Status', 'Code', 'Reasons', 'Retryable'], rows)
}

function reasonsText(reasons: readonly (string | null)[]): string {
  const named = reasons.filter((reason) => reason !== null).map(code)
  if (named.length === 0) return ''
  return reasons.includes(null) ? `none, ${named.join(', ')}` : named.join(', ')
}

function retryableReasons({ surface }: Route, name: string, reasons: readonly (string | null)[]): string {
  const retryable = reasons.filter((reason) => isRetryable(surface, name, reason)).map((reason) => code(reason ?? ''))
  return retryable.length === 0 ? 'no' : `with ${retryable.join(', ')}`
}
