import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const REPOSITORY = path.resolve(import.meta.dirname, '../..')

/** What people copy: one script, for bash with BERTH and KEY in its environment, and what the page says that it prints. */
export interface Printed {
  script: string
  prints: string
}

/** The README's tour. */
export function readTour(): Printed {
  const readme = readFileSync(path.join(REPOSITORY, 'README.md'), 'utf8')
  return printedOf(/^## A tour in five minutes\n(.*?)^## /ms.exec(readme)?.[1] ?? '')
}

/** A page of docs/guides. */
export function readGuide(name: string): Printed {
  return printedOf(readFileSync(path.join(REPOSITORY, 'docs', 'guides', name), 'utf8'))
}

function printedOf(text: string): Printed {
  const blocks = (language: string) =>
    [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, block = '']) => block)
  const [first = '', ...commands] = blocks('sh')
  assert.match(first, /^export BERTH=http:\/\/127\.0\.0\.1:8080 KEY=sfk_/)
  return { script: `set -euo pipefail\n${commands.join('\n')}`, prints: blocks('text').join('') }
}

/** What the commands print, run one after the other as somebody does who copies them. */
export async function printedBy({ script }: Printed, service: { base_url: string; api_key: string }): Promise<string> {
  const directory = mkdtempSync(path.join(tmpdir(), 'berth-readme-'))
  try {
    const env = { ...process.env, BERTH: service.base_url, KEY: service.api_key }
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: directory, env, timeout: 200_000 })
    return stdout
  } finally {
    rmSync(directory, { recursive: true })
  }
}
