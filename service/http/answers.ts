import type { ValidateFunction } from 'ajv/dist/2020.js'
import { declares, errorsOf, type Errors } from '../../contract/route-errors.ts'
import type { Route } from '../../contract/route.ts'
import type { Failure } from '../lib/fail.ts'
import type { Reply } from './call.ts'
import { compileAnswers } from './checks.ts'

/** What a route declares to answer, compiled for checking. */
export interface Declared {
  route: Route
  answers: Map<number, ValidateFunction | null>
  errors: Errors
}

export function compileDeclared(route: Route): Declared {
  return { route, answers: compileAnswers(route), errors: errorsOf(route) }
}

type JsonReply = Extract<Reply, { status: number }>

/** The body as it goes out; undefined when there is none. */
export function jsonOf({ json, body }: JsonReply): string | undefined {
  return json ?? (body === undefined ? undefined : JSON.stringify(body))
}

/** Throws when an answer is not what its route declares. */
export function checkAnswer(declared: Declared, answer: JsonReply): void {
  const validate = declared.answers.get(answer.status)
  if (validate === undefined) throw new Error(`${declared.route.id} does not declare status ${answer.status}`)
  // As the wire has it: a Date is a string there, undefined is absent.
  if (validate === null || answer.body instanceof Uint8Array) return
  const json = jsonOf(answer)
  const body: unknown = json === undefined ? undefined : JSON.parse(json)
  if (!validate(body)) {
    throw new Error(`${declared.route.id} answers ${answer.status} outside of its schema: ${JSON.stringify(validate.errors)}`)
  }
}

/** The refusal itself, or what is wrong with it when its route does not declare it. */
export function checkRefusal(declared: Declared, failure: Failure): Failure | Error {
  if (declares(declared.errors, failure.code, failure.reason ?? null)) return failure
  return new Error(`${declared.route.id} does not declare ${failure.code} ${failure.reason ?? 'without reason'}`, { cause: failure })
}
