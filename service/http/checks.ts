import { type AnySchema, Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import ajvFormats from 'ajv-formats'
import type { TSchema } from 'typebox'
import type { Surface } from '../../contract/errors.ts'
import { LIMITS } from '../../contract/limits.ts'
import type { Route } from '../../contract/route.ts'
import type { Issue } from '../../contract/schemas/error.ts'
import { fail, type Failure } from '../lib/fail.ts'
import { isUuid } from '../lib/ids.ts'
import { nearest } from './nearest.ts'

const ISSUES_MAX = 100
const OWN_ISSUES_MAX = 1000
const PATH_CHARACTERS_MAX = 200

interface Finding extends Issue {
  in: 'path' | 'query' | 'header' | 'body'
  unknown_name: boolean
}

export interface Validator {
  (value: unknown): boolean
  /** Errors of the last value; empty if it was valid. */
  readonly errors: readonly ErrorObject[]
}

export interface Checks {
  params: Validator | null
  query: Validator | null
  /** Declared query parameters; all others are refused. */
  query_names: readonly string[]
  headers: Validator | null
  /** Checks the body instead of the schema `body`. */
  check_body: NonNullable<Route['check_body']> | null
  body: Validator | null
}

const bodies = createAjv({})
const parameters = createAjv({ useDefaults: true })
const EMPTY_BODY = { type: 'object', additionalProperties: false }

function createAjv(options: { useDefaults?: true }): Ajv2020 {
  const ajv = new Ajv2020({ allErrors: true, verbose: true, strict: true, strictTypes: false, strictRequired: false, ...options })
  ajvFormats.default(ajv, ['date-time', 'uri', 'byte'])
  ajv.addFormat('uuid', isUuid)
  const rfc3339 = ajv.formats['date-time'] as { validate: (text: string) => boolean }
  ajv.addFormat('date-time', (text: string) => rfc3339.validate(text) && isStorable(new Date(text)))
  return ajv
}

/** RFC 3339 allows leap seconds, which a Date cannot hold, and year 0, which the database cannot hold. */
function isStorable(date: Date): boolean {
  return date.getUTCFullYear() >= 1 && date.getUTCFullYear() <= 9999 // false for an invalid date
}

/** Compiles a schema at its first value, because a process uses few of the contract's schemas, and compiling all takes a second. */
function validator(ajv: Ajv2020, schema: AnySchema): Validator {
  let compiled: ValidateFunction | undefined
  const fits = (value: unknown) => (compiled ??= ajv.compile(schema))(value)
  return Object.defineProperty(fits, 'errors', { get: () => compiled?.errors ?? [] }) as typeof fits & Validator
}

export function checksOf(route: Route): Checks {
  return {
    params: route.params === undefined ? null : validator(parameters, route.params),
    query: route.query === undefined ? null : validator(parameters, route.query),
    query_names: Object.keys(propertiesOf(route.query)),
    headers: route.headers === undefined ? null : validator(bodies, route.headers),
    check_body: route.check_body ?? null,
    body:
      route.body === 'bytes' || route.method === 'GET' || route.check_body !== undefined
        ? null
        : validator(bodies, route.body ?? EMPTY_BODY),
  }
}

export function answersOf(route: Route): Map<number, Validator | null> {
  const answers = Object.entries(route.answers)
  return new Map(answers.map(([status, { schema }]) => [Number(status), schema === undefined ? null : validator(bodies, schema)]))
}

export function validatorOf(schema: TSchema): Validator {
  return validator(bodies, schema)
}

/** Refuses an invalid request with all its issues. Converts query strings to their types in place. */
export function check(
  surface: Surface,
  checks: Checks,
  given: { params: unknown; query: object | null; headers: unknown; body: unknown },
): void {
  const findings = [
    ...findingsOf('path', checks.params, given.params),
    ...unknownNames(checks.query_names, given.query),
    ...findingsOf('query', checks.query, given.query),
    ...findingsOf('header', checks.headers, given.headers),
    ...findingsOf('body', checks.body, given.body),
    ...(checks.check_body === null ? [] : ownFindings(checks.check_body, given.body)),
  ]
  if (findings.length > 0) throw invalid(surface, findings.slice(0, checks.check_body === null ? ISSUES_MAX : OWN_ISSUES_MAX))
}

/** Refuses unknown names, because a misspelt one must not be ignored: `?include_delete=true` would list without the deleted workspaces. */
function unknownNames(known: readonly string[], query: object | null): Finding[] {
  const unknown = Object.keys(query ?? {}).filter((name) => !known.includes(name))
  return unknown.slice(0, ISSUES_MAX).map((name) => ({ in: 'query', unknown_name: true, ...unknownName(name, name, 'parameter', known) }))
}

function unknownName(path: string, name: string, what: 'parameter' | 'property', known: readonly string[]): Issue {
  const near = nearest(name, known)
  const message = `is not a known ${what}${near === undefined ? '' : `: did you mean ${near}?`}`
  return { path: printable(path), message, ...(near === undefined ? {} : { nearest: near }) }
}

function printable(path: string): string {
  return path.slice(0, PATH_CHARACTERS_MAX).toWellFormed()
}

export function propertiesOf(schema: unknown): object {
  return (schema as { properties?: object } | undefined)?.properties ?? {}
}

function findingsOf(where: Finding['in'], validate: Validator | null, value: unknown): Finding[] {
  if (validate === null) return []
  const unfit = where === 'body' ? unfitShape(value) : null
  if (unfit !== null) return [{ in: 'body', path: '', message: unfit, unknown_name: true }]
  if (validate(value)) return []
  return validate.errors.slice(0, ISSUES_MAX).map((error) => ({ in: where, ...issueOf(error) }))
}

function ownFindings(judge: NonNullable<Route['check_body']>, body: unknown): Finding[] {
  const unfit = unfitShape(body)
  if (unfit !== null) return [{ in: 'body', path: '', message: unfit, unknown_name: true }]
  return judge(body)
    .slice(0, OWN_ISSUES_MAX)
    .map((issue) => ({ in: 'body', ...issue, unknown_name: issue.reason === 'unknown_property' }))
}

/** Checks size and depth of a body. It iterates by level instead of recursing, since a body may be nested half a million deep. */
function unfitShape(body: unknown): string | null {
  const { values_max, levels_max } = LIMITS.json
  let values = 0
  let levels = 0
  for (let level = containers([body]); level.length > 0; levels++) {
    if (levels === levels_max) return `must not be nested deeper than ${levels_max} levels`
    const inner = level.flatMap((container): unknown[] => Object.values(container))
    values += inner.length
    if (values > values_max) return `must not have more than ${values_max} values`
    level = containers(inner)
  }
  return null
}

function containers(values: unknown[]): object[] {
  return values.filter((value) => value !== null && typeof value === 'object')
}

function issueOf(error: ErrorObject): Omit<Finding, 'in'> {
  const parts = error.instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const params = error.params as { additionalProperty?: string; missingProperty?: string; allowedValues?: unknown[] }
  const name = params.additionalProperty ?? params.missingProperty
  const whole = [...parts, ...(name === undefined ? [] : [name])].join('.')
  const path = printable(whole)
  if (params.additionalProperty !== undefined) {
    const known = Object.keys(propertiesOf(error.parentSchema))
    return { ...unknownName(whole, params.additionalProperty, 'property', known), unknown_name: true }
  }
  if (params.missingProperty !== undefined) return { path, message: 'is required', unknown_name: false }
  const allowed = params.allowedValues === undefined ? '' : `: ${params.allowedValues.join(', ')}`
  return { path, message: `${error.message ?? 'is not valid'}${allowed}`, unknown_name: false }
}

/** App: always 422. Cell: 400 for parameters and unknown fields, 422 for values of known fields (Cell, "Errors"). */
function invalid(surface: Surface, findings: Finding[]): Failure {
  const issues: Issue[] = findings.map(({ in: _in, unknown_name: _unknown, ...issue }) => issue)
  const malformed = surface === 'cell' && findings.some((finding) => finding.in !== 'body' || finding.unknown_name)
  return fail(malformed ? 'bad_request' : 'validation_failed', null, 'The request is not valid', { details: { issues } })
}
