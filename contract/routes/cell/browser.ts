import { Type } from 'typebox'
import { toolToken } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { cellRoute } from '../../route.ts'
import { BrowserContent, BrowserScreenshot } from '../../schemas/cell/browser.ts'
import { Uuid } from '../../schemas/common.ts'

const params = Type.Object({ workspace_id: Uuid() })
const ERRORS = {
  validation_failed: NO_REASON,
  conflict: ['guest_feature_unavailable', 'navigation_failed', 'browser_failed', 'operation_interrupted'],
  payload_too_large: NO_REASON,
  rate_limited: ['too_many_sessions'],
} as const

export const browserScreenshot = cellRoute({
  id: 'browser.screenshot',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/browser/screenshot',
  summary: 'A picture of a page, in the browser of the workspace. Nothing of a page stays for the next call',
  access: toolToken('browser'),
  modes: ['processful'],
  machine: 'asked',
  params,
  body: BrowserScreenshot,
  answers: { 200: { content: { 'image/png': null }, description: 'The picture' } },
  errors: ERRORS,
})

export const browserContent = cellRoute({
  id: 'browser.content',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/browser/content',
  summary: 'A page as it is after its scripts have run: its HTML, or its text with `format` text (text/plain)',
  access: toolToken('browser'),
  modes: ['processful'],
  machine: 'asked',
  params,
  body: BrowserContent,
  answers: {
    200: {
      content: { 'text/html': null, 'text/plain': null },
      headers: { 'Content-Security-Policy': 'sandbox' },
      description: 'The page, as UTF-8: the type follows `format`',
    },
  },
  errors: ERRORS,
})
