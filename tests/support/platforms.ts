import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { cachedBuild } from '../../tools/setup/cached-build.mjs'
import { patience } from './patience.ts'

const ARCHITECTURE = process.arch === 'arm64' ? 'arm64' : 'x64'
/** npm has the files that the runtimes' own installers fetch. */
const PLATFORMS = {
  'Node.js 20': { package: `node-linux-${ARCHITECTURE}@20.4.0`, program: `node-linux-${ARCHITECTURE}/bin/node`, runs: [] },
  Deno: {
    package: `@deno/linux-${ARCHITECTURE}-glibc@2.9.6`,
    program: `@deno/linux-${ARCHITECTURE}-glibc/deno`,
    runs: ['run', '--allow-all'],
  },
  Bun:
    ARCHITECTURE === 'arm64'
      ? { package: '@oven/bun-linux-aarch64@1.4.4', program: '@oven/bun-linux-aarch64/bin/bun', runs: ['run'] }
      : { package: '@oven/bun-linux-x64-baseline@1.4.4', program: '@oven/bun-linux-x64-baseline/bin/bun', runs: ['run'] },
} as const

export type Platform = keyof typeof PLATFORMS
export const PLATFORM_NAMES = Object.keys(PLATFORMS) as Platform[]

export async function programOf(platform: Platform): Promise<string> {
  const { package: name, program } = PLATFORMS[platform]
  const folder = await cachedBuild({
    parent: path.join(process.env['BERTH_CACHE_DIR'] ?? '/var/cache/berth', 'platforms'),
    key: name.replaceAll(/[^a-z0-9.-]+/g, '-'),
    build: ({ output, run }) =>
      run('npm', ['install', '--no-save', '--ignore-scripts', '--force', '--prefix', output, name], { timeout_seconds: 600 }),
  })
  return path.join(folder, 'node_modules', program)
}

export async function runOn(platform: Platform, file: string, env: Record<string, string>): Promise<string> {
  const given = { PATH: process.env['PATH'] ?? '', HOME: path.dirname(file), ...env }
  const words = [...PLATFORMS[platform].runs, file]
  const { stdout } = await promisify(execFile)(await programOf(platform), words, { env: given, timeout: patience(200_000) })
  return stdout
}
