import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { isSetUp, notRun, samplesOf } from './guide-samples.ts'
import { patience } from './patience.ts'

const REPOSITORY = path.resolve(import.meta.dirname, '../..')

export interface Printed {
  script: string
  prints: string
}

export function readTour(): Printed {
  const readme = readFileSync(path.join(REPOSITORY, 'README.md'), 'utf8')
  return printedOf(/^## A tour in five minutes\n(.*?)^## /ms.exec(readme)?.[1] ?? '')
}

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

export async function printedBy({ script }: Printed, service: { base_url: string; api_key: string }): Promise<string> {
  const directory = mkdtempSync(path.join(tmpdir(), 'berth-readme-'))
  try {
    const env = { ...process.env, BERTH: service.base_url, KEY: service.api_key }
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: directory, env, timeout: patience(200_000) })
    return stdout
  } finally {
    rmSync(directory, { recursive: true })
  }
}

export interface Stage {
  begin: string
  /** Bash lines to insert before the line with this beginning. */
  before?: Readonly<Record<string, string>>
  env: Record<string, string>
}

export async function runPage(page: string, { begin, before = {}, env }: Stage): Promise<string> {
  const blocks = samplesOf(page).filter((sample) => sample.language === 'sh' && !isSetUp(sample) && notRun(sample) === undefined)
  let lines = blocks.map(({ text }) => text).join('\n')
  for (const [line, first] of Object.entries(before)) {
    assert.ok(`\n${lines}`.includes(`\n${line}`), `${page} has no line that begins: ${line}`)
    lines = `\n${lines}`.replace(`\n${line}`, () => `\n${first}\n${line}`).slice(1)
  }
  const script = `set -euo pipefail\ncurl() { command curl --fail-with-body "$@"; }\n${begin}\n${lines}`
  const directory = mkdtempSync(path.join(tmpdir(), 'berth-readme-'))
  try {
    const { stdout } = await promisify(execFile)('bash', ['-c', script], {
      cwd: directory,
      env: { ...process.env, ...env },
      timeout: patience(200_000),
    })
    return stdout
  } finally {
    rmSync(directory, { recursive: true })
  }
}
