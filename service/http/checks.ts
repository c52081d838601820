import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import ajvFormats from 'ajv-formats'
import type { TSchema } from 'typebox'
import type { Surface } from '../../contract/errors.ts'
import { LIMITS } from '../../contract/limits.ts'
import type { Route } from '../../contract/route.ts'
import { fail, type Failure } from '../lib/fail.ts'
import { isUuid } from '../lib/ids.ts'

const ISSUES_MAX = 100
const PATH_CHARACTERS_MAX = 200

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
  const unfit = where === 'body' ? unfitShape(value) : null
  if (unfit !== null) return [{ in: 'body', path: '', message: unfit, unknown_property: true }]
  if (validate(value)) return []
  return (validate.errors ?? []).slice(0, ISSUES_MAX).map((error) => ({ in: where, ...issueOf(error) }))
}

/** What is wrong with the size of a body's tree. Level by level and not by recursion, since a body may be nested half a million deep. */
function unfitShape(body: unknown): string | null {
  const { json_values_max, json_levels_max } = LIMITS
  let values = 0
  let levels = 0
  for (let level = containers([body]); level.length > 0; levels++) {
    if (levels === json_levels_max) return `must not be nested deeper than ${json_levels_max} levels`
    const inner = level.flatMap((container): unknown[] => Object.values(container))
    values += inner.length
    if (values > json_values_max) return `must not have more than ${json_values_max} values`
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
