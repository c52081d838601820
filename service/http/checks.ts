import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import ajvFormats from 'ajv-formats'
import type { TSchema } from 'typebox'
import type { Surface } from '../../contract/errors.ts'
import type { Route } from '../../contract/route.ts'
import { fail, type Failure } from '../lib/fail.ts'
import { isUuid } from '../lib/ids.ts'

const ISSUES_MAX = 100
const PATH_CHARACTERS_MAX = 200
/** No body of ours has this many values; more would only be time spent on a long list of issues. */
const VALUES_MAX = 10_000

export interface Issue {
  path: string
  message: string
}

interface Finding extends Issue {
  in: 'path' | 'query' | 'body'
  unknown_property: boolean
}

/** The compiled checks of one route. */
export interface Checks {
  params: ValidateFunction | null
  query: ValidateFunction | null
  body: ValidateFunction | null
}

const bodies = createAjv({})
const parameters = createAjv({ useDefaults: true })
const EMPTY_BODY = { type: 'object', additionalProperties: false }

function createAjv(options: { useDefaults?: true }): Ajv2020 {
  const ajv = new Ajv2020({ allErrors: true, strict: true, strictTypes: false, strictRequired: false, ...options })
  ajvFormats.default(ajv, ['date-time', 'uri', 'byte'])
  ajv.addFormat('uuid', isUuid)
  return ajv
}

export function compileChecks(route: Route): Checks {
  return {
    params: route.params === undefined ? null : parameters.compile(route.params),
    query: route.query === undefined ? null : parameters.compile(route.query),
    body: route.body === 'bytes' || route.method === 'GET' ? null : bodies.compile(route.body ?? EMPTY_BODY),
  }
}

/** Checks of the bodies that a route answers, by status. */
export function compileAnswers(route: Route): Map<number, ValidateFunction | null> {
  const compiled = new Map<number, ValidateFunction | null>()
  for (const [status, answer] of Object.entries(route.answers)) {
    compiled.set(Number(status), answer.schema === undefined ? null : bodies.compile(answer.schema))
  }
  return compiled
}

export function compileSchema(schema: TSchema): ValidateFunction {
  return bodies.compile(schema)
}

/** Refuses what is wrong with a request, every issue at once. Query strings are converted to their types in place. */
export function check(surface: Surface, checks: Checks, given: { params: unknown; query: unknown; body: unknown }): void {
  const findings = [
    ...findingsOf('path', checks.params, given.params),
    ...findingsOf('query', checks.query, given.query),
    ...findingsOf('body', checks.body, given.body),
  ]
  if (findings.length > 0) throw invalid(surface, findings)
}

function findingsOf(where: Finding['in'], validate: ValidateFunction | null, value: unknown): Finding[] {
  if (validate === null) return []
  if (where === 'body' && hasTooManyValues(value)) {
    return [{ in: 'body', path: '', message: `must not have more than ${VALUES_MAX} values`, unknown_property: true }]
  }
  if (validate(value)) return []
  return (validate.errors ?? []).slice(0, ISSUES_MAX).map((error) => ({ in: where, ...issueOf(error) }))
}

/** Counts without recursion, and no further than the bound. */
function hasTooManyValues(body: unknown): boolean {
  const open: unknown[] = [body]
  let values = 0
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (value === null || typeof value !== 'object') continue
    const inner: unknown[] = Array.isArray(value) ? value : Object.values(value)
    values += inner.length
    if (values > VALUES_MAX) return true
    open.push(...inner)
  }
  return false
}

function issueOf(error: ErrorObject): Omit<Finding, 'in'> {
  const parts = error.instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const params = error.params as { additionalProperty?: string; missingProperty?: string; allowedValues?: unknown[] }
  const name = params.additionalProperty ?? params.missingProperty
  const path = [...parts, ...(name === undefined ? [] : [name])].join('.').slice(0, PATH_CHARACTERS_MAX).toWellFormed()
  if (params.additionalProperty !== undefined) return { path, message: 'is not a known property', unknown_property: true }
  if (params.missingProperty !== undefined) return { path, message: 'is required', unknown_property: false }
  const allowed = params.allowedValues === undefined ? '' : `: ${params.allowedValues.join(', ')}`
  return { path, message: `${error.message ?? 'is not valid'}${allowed}`, unknown_property: false }
}

/** App: always 422. Cell: 400 for parameters and unknown fields, 422 for values of known fields (Cell, "Errors"). */
function invalid(surface: Surface, findings: Finding[]): Failure {
  const issues: Issue[] = findings.slice(0, ISSUES_MAX).map(({ path, message }) => ({ path, message }))
  const malformed = surface === 'cell' && findings.some((finding) => finding.in !== 'body' || finding.unknown_property)
  return fail(malformed ? 'bad_request' : 'validation_failed', null, 'The request is not valid', { details: { issues } })
}
