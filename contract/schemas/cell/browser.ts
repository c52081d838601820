import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { strict, Enum } from '../common.ts'

export const BROWSER_WAITS = ['load', 'domcontentloaded', 'networkidle'] as const
export const CONTENT_FORMATS = ['html', 'text'] as const

const side = () => Type.Integer({ minimum: 1, maximum: LIMITS.browser.viewport_pixels_max })

const visit = {
  url: Type.String({ maxLength: LIMITS.browser.url_characters_max, description: 'http or https, as the workspace reaches it' }),
  viewport: Type.Optional(
    Type.Object({ width: side(), height: side() }, { ...strict, description: 'In CSS pixels; 1280 by 720 when absent' }),
  ),
  wait_until: Type.Optional({ ...Enum(BROWSER_WAITS), default: 'load' }),
  wait_ms: Type.Optional(
    Type.Integer({ minimum: 0, maximum: LIMITS.browser.wait_ms_max, default: 0, description: 'Waited for after wait_until' }),
  ),
  timeout_ms: Type.Optional(
    Type.Integer({ minimum: 1000, maximum: LIMITS.browser.timeout_ms_max, default: LIMITS.browser.timeout_ms_default }),
  ),
}

export const BrowserScreenshot = Type.Object(
  { ...visit, full_page: Type.Optional(Type.Boolean({ default: false, description: 'As high as the page, within 16,384 pixels' })) },
  strict,
)
export type BrowserScreenshot = Static<typeof BrowserScreenshot>

export const BrowserContent = Type.Object({ ...visit, format: Type.Optional({ ...Enum(CONTENT_FORMATS), default: 'html' }) }, strict)
export type BrowserContent = Static<typeof BrowserContent>
