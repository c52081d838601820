import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Route } from '../../contract/route.ts'
import { answersOf } from '../../service/http/checks.ts'
import { declaredLines } from '../ledger/lines.ts'
import { observedLines } from '../ledger/observations.ts'
import { depth } from '../support/depth.ts'
import { testSeed } from '../support/seed.ts'
import { requestsOf, type Fuzzed } from './requests.ts'

/** A number, not a time, so that a slow computer proves as much. */
const REQUESTS = depth({ short: 40, long: 3000 })
/** Only a stream may last as long as its command; this suffices on a busy computer. */
const ANSWER_MS = 30_000
/** The tested service has no package mirror. */
const NOT_CONFIGURED = '"reason":"package_search_unavailable"'

export async function fuzz(
  route: Route,
  ids: Record<string, string>,
  send: (request: Fuzzed, signal: AbortSignal) => Promise<Response>,
): Promise<void> {
  const declared = new Set(declaredLines([route]))
  const schemas = answersOf(route)
  const seed = testSeed()
  const property = fc.asyncProperty(requestsOf(route, ids), async (request) => {
    const response = await send(request, AbortSignal.timeout(ANSWER_MS))
    const content_type = response.headers.get('content-type') ?? ''
    const text = await response.text()
    assert.ok(response.status < 500 || text.includes(NOT_CONFIGURED), `${response.status}: ${text}`)
    assert.ok(response.headers.get('x-request-id'), 'an answer without X-Request-Id')
    const lines = observedLines({ method: request.method, path: request.path, status: response.status, content_type, text })
    for (const line of lines) assert.ok(declared.has(line), `undeclared: ${line}`)
    const validate = response.status < 400 && content_type.startsWith('application/json') ? schemas.get(response.status) : null
    if (validate) assert.ok(validate(JSON.parse(text)), JSON.stringify(validate.errors))
  })
  await fc.assert(property, { seed, numRuns: REQUESTS, endOnFailure: true })
}
