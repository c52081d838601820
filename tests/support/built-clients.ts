// Built, because a test of the sources would miss errors of the bundle.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { bundleCli, bundleSdk } from '../../tools/sdk/bundle.ts'

export const CLIENT_NODE = process.env['BERTH_TEST_CLIENT_NODE'] ?? process.execPath

let cli: Promise<string> | undefined
let sdk: Promise<string> | undefined

export function builtCli(): Promise<string> {
  return (cli ??= built('berth.cjs', bundleCli))
}

export function builtSdk(): Promise<string> {
  return (sdk ??= built('main.mjs', async (file) => void (await bundleSdk('main', file))))
}

async function built(name: string, build: (file: string) => Promise<void>): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-built-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const file = path.join(folder, name)
  await build(file)
  return file
}
