import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import Type from 'typebox'
import { detailsOf } from '../../contract/details.ts'
import type { Surface } from '../../contract/errors.ts'
import { declares, errorsOf, type Errors } from '../../contract/route-errors.ts'
import { contentOf, type Route } from '../../contract/route.ts'
import type { Failure } from '../lib/fail.ts'
import type { Reply } from './call.ts'
import { answersOf, type Validator, validatorOf } from './checks.ts'

export interface Declared {
  route: Route
  answers: Map<number, Validator | null>
  errors: Errors
}

export function declaredOf(route: Route): Declared {
  return { route, answers: answersOf(route), errors: errorsOf(route) }
}

type JsonReply = Extract<Reply, { status: number }>

export function jsonOf({ json, body }: JsonReply): string | undefined {
  return json ?? (body === undefined ? undefined : JSON.stringify(body))
}

export function checkAnswer(declared: Declared, answer: JsonReply): void {
  const validate = declared.answers.get(answer.status)
  if (validate === undefined) throw new Error(`${declared.route.id} does not declare status ${answer.status}`)
  if (answer.body instanceof Uint8Array) return checkType(declared, answer.status, answer.headers?.['content-type'])
  // Checks the JSON form, in which a Date is a string, and undefined is absent.
  if (validate === null) return
  const json = jsonOf(answer)
  const body: unknown = json === undefined ? undefined : JSON.parse(json)
  if (!validate(body)) {
    throw new Error(`${declared.route.id} answers ${answer.status} outside of its schema: ${JSON.stringify(validate.errors)}`)
  }
}

/** Until disposed, a stream can start only with a declared status and content type. */
export function watchHead(declared: Declared, response: ServerResponse): Disposable {
  const begin = response.writeHead.bind(response)
  Object.assign(response, {
    writeHead(status: number, headers: OutgoingHttpHeaders = {}) {
      checkType(declared, status, String(headers['content-type'] ?? response.getHeader('content-type') ?? ''))
      return begin(status, headers)
    },
  })
  return { [Symbol.dispose]: () => void Reflect.deleteProperty(response, 'writeHead') }
}

function checkType({ route }: Declared, status: number, content_type = ''): void {
  const answer = route.answers[status]
  if (answer === undefined) throw new Error(`${route.id} does not declare status ${status}`)
  const type = content_type.split(';', 1)[0]?.trim() ?? ''
  const types = Object.keys(contentOf(answer))
  const is_declared = types.length === 0 ? type === '' : types.includes(type)
  if (!is_declared) throw new Error(`${route.id} answers ${status} as ${type || 'nothing'} and declares ${types.join(', ') || 'nothing'}`)
}

export function checkRefusal(declared: Declared, failure: Failure): Failure | Error {
  const reason = failure.reason ?? null
  if (declares(declared.errors, failure.code, reason)) {
    const wrong = wrongDetails(declared.route.surface, failure.code, reason, failure.options.details ?? {})
    return wrong === null
      ? failure
      : new Error(`${declared.route.id} refuses with details that are not declared: ${wrong}`, { cause: failure })
  }
  return new Error(`${declared.route.id} does not declare ${failure.code} ${failure.reason ?? 'without reason'}`, { cause: failure })
}

const validators = new Map<string, Validator>()

/** @returns null if the details match the contract */
function wrongDetails(surface: Surface, code: string, reason: string | null, details: Record<string, unknown>): string | null {
  const name = `${surface} ${code} ${reason ?? ''}`
  const validate = validators.get(name) ?? validatorOf(Type.Object({ ...detailsOf(surface, code, reason) }, { additionalProperties: true }))
  validators.set(name, validate)
  const told: unknown = JSON.parse(JSON.stringify(details)) // checked as JSON, in which undefined is absent
  return validate(told)
    ? null
    : `${name.trim()} ${JSON.stringify(validate.errors.map(({ instancePath, message }) => `${instancePath} ${message}`))}`
}
