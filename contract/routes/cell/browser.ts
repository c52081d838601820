import { Type } from 'typebox'
import { cellRoute } from '../../route.ts'
import { BrowserContent, BrowserScreenshot } from '../../schemas/cell/browser.ts'
import { Uuid } from '../../schemas/common.ts'
import { GATE_CONFLICTS, GATE_ERRORS } from './gate-errors.ts'

const params = Type.Object({ workspace_id: Uuid() })
const ERRORS = {
  ...GATE_ERRORS,
  validation_failed: [],
  conflict: [...GATE_CONFLICTS, 'guest_feature_unavailable', 'navigation_failed', 'browser_failed', 'operation_interrupted'],
  payload_too_large: [],
  rate_limited: ['too_many_sessions'],
} as const

export const browserScreenshot = cellRoute({
  id: 'browser.screenshot',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/browser/screenshot',
  summary: 'A picture of a page, in the browser of the workspace. Nothing of a page stays for the next call',
  auth: 'tool_token',
  tool: 'browser',
  params,
  body: BrowserScreenshot,
  answers: { 200: { content_type: 'image/png', description: 'The picture' } },
  errors: ERRORS,
})

export const browserContent = cellRoute({
  id: 'browser.content',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/browser/content',
  summary: 'A page as it is after its scripts have run: its HTML, or its text with `format` text (text/plain)',
  auth: 'tool_token',
  tool: 'browser',
  params,
  body: BrowserContent,
  answers: {
    200: { content_type: 'text/html', headers: { 'Content-Security-Policy': 'sandbox' }, description: 'The page, as UTF-8' },
  },
  errors: ERRORS,
})
