import { readFileSync } from 'node:fs'
import type { StaticFile } from '../../http/static-files.ts'

const PAGE_PATHS = ['/', '/verify-email', '/reset-password', '/change-email', '/invitation']

const read = (name: string) => readFileSync(new URL(name, import.meta.url))

/** The pages are static: they never contain data of a request. */
export function siteFiles(): ReadonlyMap<string, StaticFile> {
  const page: StaticFile = { type: 'text/html; charset=utf-8', bytes: read('page.html') }
  return new Map([
    ...PAGE_PATHS.map((path) => [path, page] as const),
    ['/site/page.css', { type: 'text/css; charset=utf-8', bytes: read('page.css') }],
    ['/site/page.js', { type: 'text/javascript; charset=utf-8', bytes: read('page.js') }],
  ])
}
