import type { BrowserRequest } from '../../../../contract/internal/agent-tools.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { BrowserContent, BrowserScreenshot } from '../../../../contract/schemas/cell/browser.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { environmentOf, type WorkspaceEnvironment } from '../environment.ts'

const VIEWPORT = { width: 1280, height: 720 }

export function visitOf(asked: BrowserScreenshot | BrowserContent, environment: WorkspaceEnvironment): BrowserRequest {
  const timeout_ms = asked.timeout_ms ?? LIMITS.browser.timeout_ms_default
  const wait_ms = asked.wait_ms ?? 0
  if (wait_ms >= timeout_ms) throw invalid('wait_ms', 'must be below timeout_ms')
  return {
    url: checkUrl(asked.url),
    ...(asked.viewport ?? VIEWPORT),
    wait_until: asked.wait_until ?? 'load',
    wait_ms,
    timeout_ms,
    env: environmentOf(environment),
  }
}

/** Allows http and https alone: no spelling of file:, chrome:, view-source:, data: or javascript: passes. */
function checkUrl(url: string): string {
  if (!url.isWellFormed() || !/^https?:\/\//i.test(url)) throw invalid('url', 'must start with http:// or https://')
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) throw invalid('url', 'is not an http or https URL')
  if (parsed.username !== '' || parsed.password !== '') throw invalid('url', 'must not contain a user or password')
  return parsed.href
}

function invalid(path: string, message: string): Failure {
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message }] } })
}
