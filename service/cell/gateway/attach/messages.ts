import type { Static, TSchema } from 'typebox'
import { check, type Validator, validatorOf } from '../../../http/checks.ts'
import { parseJson } from '../../../http/read-body.ts'
import { fail } from '../../../lib/fail.ts'

type Message<S extends Record<string, TSchema>> = { [Type in keyof S]: Static<S[Type]> }[keyof S]

/** A bad value of a known field closes the connection with 4422, anything else with 4400 (Cell, "Errors"). */
export function messageReader<const S extends Record<string, TSchema>>(schemas: S): (message: Buffer) => Message<S> {
  const checks = new Map<unknown, Validator>(Object.entries(schemas).map(([type, schema]) => [type, validatorOf(schema)]))
  return (message) => {
    const parsed = parseJson(message)
    if (parsed === undefined) throw fail('bad_request', null, 'The message is not JSON')
    const body = checks.get((parsed.value as { type?: unknown } | null)?.type)
    if (body === undefined) {
      throw fail('bad_request', null, `The type of the message must be one of: ${Object.keys(schemas).join(', ')}`)
    }
    const no_parameters = { params: null, query: null, headers: null }
    check('cell', { ...no_parameters, query_names: [], body, check_body: null }, { ...no_parameters, body: parsed.value })
    return parsed.value as Message<S>
  }
}
