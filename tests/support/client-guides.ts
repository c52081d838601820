import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { builtCli, builtSdk } from './built-clients.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const NODE = [process.execPath, '--disable-warning=ExperimentalWarning']
const TIMEOUT_MS = 200_000

export interface Sampled {
  prints: string
  printed: string
}

interface Where {
  url: string
  api_key: string
}

export async function runTypescript(page: string, where: Where): Promise<Sampled> {
  const { blocks, prints } = readPage(page, 'ts')
  const program = blocks.join('\n').replaceAll("'@berth/sdk'", JSON.stringify(await builtSdk()))
  return inFolder(async (folder) => {
    writeFileSync(path.join(folder, 'sample.mts'), program)
    return { prints, printed: await output([...NODE, path.join(folder, 'sample.mts')], folder, where) }
  })
}

const { BERTH_TEST_PYTHON_MISSING: missing = 'tools/test.mjs did not set it up' } = process.env
/** undefined: set-up could not install them. */
export const PYTHON_PACKAGES = process.env['BERTH_TEST_PYTHONPATH']
export const NO_PYTHON = PYTHON_PACKAGES === undefined ? `no Python packages: ${missing}` : false

export async function runPythonPage(page: string, where: Where): Promise<Sampled> {
  const { blocks, prints } = readPage(page, 'python')
  return { prints, printed: await runPython(blocks.join('\n'), where) }
}

export async function runPython(program: string, where: Where): Promise<string> {
  const paths = [path.join(ROOT, 'sdk/python'), PYTHON_PACKAGES ?? ''].join(':')
  return inFolder((folder) => output(['env', `PYTHONPATH=${paths}`, 'PYTHONDONTWRITEBYTECODE=1', 'python3', '-c', program], folder, where))
}

export async function runCommands(page: string, where: Where): Promise<Sampled> {
  const { blocks, prints } = readPage(page, 'sh')
  const setUp = Math.max(
    0,
    blocks.findIndex((block) => block.startsWith('export BERTH_URL=')),
  )
  return inFolder(async (folder) => {
    const program = path.join(folder, 'berth')
    writeFileSync(program, `#!/bin/sh\nexec ${NODE.join(' ')} ${await builtCli()} "$@"\n`)
    chmodSync(program, 0o755)
    const script = `set -euo pipefail\nPATH=${folder}:$PATH\n${blocks.slice(setUp + 1).join('\n')}`
    return { prints, printed: await output(['bash', '-c', script], folder, where) }
  })
}

/** A `text` block is the output of the samples since the previous one. These samples do the same in several languages. */
function readPage(page: string, language: string): { blocks: string[]; prints: string } {
  const text = readFileSync(path.join(ROOT, page), 'utf8')
  const blocks: string[] = []
  let prints = ''
  let since: string[] = []
  for (const [, name = '', block = ''] of text.matchAll(/^```(\w+)\n(.*?)^```$/gms)) {
    if (name === language) blocks.push(block)
    if (block.startsWith('export BERTH_URL=')) continue // this sample only sets up, and prints nothing
    if (name !== 'text') since.push(name)
    else {
      if (since.includes(language)) prints += block
      since = []
    }
  }
  return { blocks, prints }
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-guide-'))
  try {
    return await work(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function output([program = '', ...args]: readonly string[], cwd: string, { url, api_key }: Where): Promise<string> {
  const env = { PATH: process.env['PATH'] ?? '', BERTH_URL: url, BERTH_API_KEY: api_key, BERTH_CONFIG_DIR: cwd }
  const running = promisify(execFile)(program, args, { cwd, env, timeout: TIMEOUT_MS })
  running.child.stdin?.end() // a command reads its stdin to the end
  return (await running).stdout
}
