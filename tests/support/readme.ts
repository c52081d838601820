import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'

const README = path.resolve(import.meta.dirname, '../../README.md')

/** The README's tour: one script, for bash with BERTH and KEY in its environment, and what the README says that it prints. */
export function readTour(): { script: string; prints: string } {
  const tour = /^## A tour in five minutes\n(.*?)^## /ms.exec(readFileSync(README, 'utf8'))?.[1] ?? ''
  const blocks = (language: string) =>
    [...tour.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, block = '']) => block)
  const [first = '', ...commands] = blocks('sh')
  assert.match(first, /^export BERTH=http:\/\/127\.0\.0\.1:8080 KEY=sfk_/)
  return { script: `set -euo pipefail\n${commands.join('\n')}`, prints: blocks('text').join('') }
}
