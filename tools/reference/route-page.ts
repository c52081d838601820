import { APP_CODES, CELL_CODES, RETRYABLE_REASONS, type CodeRule } from '../../contract/errors.ts'
import { errorsOf } from '../../contract/route-errors.ts'
import type { Answer, Auth, Route } from '../../contract/route.ts'
import { code, PROPERTY_HEADS, propertyRows, table, typeText, type Schema } from './schema-text.ts'

const WHO: Record<Auth, string> = {
  none: 'nobody needs to say who they are',
  principal: "a project API key or a person's session",
  person: "a person's session only",
  tool_token: 'a tool token of the workspace',
}

/** All routes of a surface, by their paths. */
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
    ...bodyText(route),
    ...messagesText(route),
    '**Answers**',
    answersText(route),
    '**Refusals**',
    refusalsText(route),
  ].join('\n\n')
}

function conditions(route: Route): string {
  const tool = route.tool === undefined ? '' : route.tool === 'any' ? ', whatever its tools' : ` that includes ${code(route.tool)}`
  return [
    `- Name: ${code(route.id)}`,
    `- Who: ${WHO[route.auth]}${tool}`,
    ...(route.idempotent ? ['- Accepts `Idempotency-Key`'] : []),
    ...(route.waits ? ['- Honours `Prefer: wait=<seconds>`'] : []),
  ].join('\n')
}

function parameters(where: string, schema: Schema | undefined): string[] {
  return schema === undefined ? [] : [`**${where} parameters**`, table(PROPERTY_HEADS, propertyRows(schema))]
}

function bodyText(route: Route): string[] {
  if (route.body === 'bytes') return ['**Body**', `Bytes, at most ${route.body_bytes_max ?? 0}.`]
  if (route.body === undefined) return []
  const schema: Schema = route.body
  const required = route.body_optional ? 'May be left out.' : ''
  const rows = propertyRows(schema)
  return ['**Body**', ...(required === '' ? [] : [required]), rows.length === 0 ? `${typeText(schema)}.` : table(PROPERTY_HEADS, rows)]
}

/** What either side of a WebSocket says. */
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

function bodyOf({ schema, content_type }: Answer): string {
  if (schema === undefined) return content_type === undefined ? 'none' : code(content_type)
  const text = typeText(schema)
  return content_type === undefined ? text : `${code(content_type)} of ${text}`
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
      retryable ? 'yes' : retryableReasons(reasons),
    ])
  return table(['Status', 'Code', 'Reasons', 'Retryable'], rows)
}

function reasonsText(reasons: readonly (string | null)[]): string {
  const named = reasons.filter((reason) => reason !== null).map(code)
  if (named.length === 0) return ''
  return reasons.includes(null) ? `none, ${named.join(', ')}` : named.join(', ')
}

function retryableReasons(reasons: readonly (string | null)[]): string {
  const retryable = reasons.filter((reason) => reason !== null && RETRYABLE_REASONS.has(reason)).map((reason) => code(reason ?? ''))
  return retryable.length === 0 ? 'no' : `with ${retryable.join(', ')}`
}
