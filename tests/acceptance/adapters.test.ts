import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { buildSdk } from '../../tools/sdk/bundle.ts'
import { isLong } from '../support/depth.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

const run = promisify(execFile)
const ROOT = path.resolve(import.meta.dirname, '../..')
const PARSES = 'import ast, sys\nfor file in sys.argv[1:]: ast.parse(open(file).read(), file)'
const { PATH = '' } = process.env

const ADAPTERS = [
  { name: 'langchain', passes: 86 },
  { name: 'inspect', passes: 44 },
]

const NODE_ADAPTERS = [
  { name: 'ai-sdk', passes: 6 },
  { name: 'computesdk', passes: 9 },
  { name: 'openai-agents', passes: 7 },
]
const EXACT = /^\d+\.\d+\.\d+$/

test('the TypeScript adapters pin exact versions of their packages, and each README names them', () => {
  for (const { name } of NODE_ADAPTERS) {
    const folder = path.join(ROOT, 'examples', name)
    const { dependencies, devDependencies } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Manifest
    for (const version of Object.values({ ...dependencies, ...devDependencies })) assert.match(version, EXACT)
    const text = readFileSync(path.join(folder, 'README.md'), 'utf8')
    for (const [of, version] of Object.entries(dependencies).filter(([each]) => each !== 'zod'))
      assert.ok(text.includes(`\`${of}\` ${version}`), name)
  }
})

interface Manifest {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}

test('every file of the Python adapters parses as Python', { timeout: patience(60_000) }, async () => {
  const files = ADAPTERS.flatMap(({ name }) => {
    const folder = path.join(ROOT, 'examples', name)
    return readdirSync(folder).flatMap((file) => (file.endsWith('.py') ? [path.join(folder, file)] : []))
  })
  assert.ok(files.length >= ADAPTERS.length * 2)
  await run('python3', ['-c', PARSES, ...files])
})

// Long run only: the packages are hundreds of megabytes.
if (isLong) {
  let service: SharedService
  let folder: string
  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'berth-adapters-'))
    service = await sharedService()
  })
  after(async () => {
    await service.stop()
    rmSync(folder, { recursive: true })
  })
  for (const { name, passes } of ADAPTERS)
    test(`the adapter for ${name} passes the ${passes} tests of that project`, { timeout: 1_200_000 }, async () => {
      const example = path.join(ROOT, 'examples', name)
      const venv = path.join(folder, name)
      await run('python3', ['-m', 'venv', venv])
      await run(path.join(venv, 'bin/pip'), ['install', '--quiet', '--requirement', path.join(example, 'requirements.txt')])
      const env = {
        ...{ PATH, HOME: folder, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: [path.join(ROOT, 'sdk/python'), example].join(':') },
        ...{ BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key },
      }
      const words = ['-m', 'pytest', '-q', '--tb=short', '-p', 'no:cacheprovider', '-o', 'asyncio_mode=auto', example]
      const ran = run(path.join(venv, 'bin/python'), words, { cwd: example, env, maxBuffer: 64 << 20 })
      const { stdout } = await ran.catch((error: unknown) => error as { stdout: string })
      assert.match(stdout, new RegExp(`^${passes} passed`, 'm'), stdout)
    })
  for (const { name, passes } of NODE_ADAPTERS)
    test(`the adapter for ${name} holds its types, and passes its ${passes} tests`, { timeout: 1_200_000 }, async () => {
      const copy = path.join(folder, name)
      cpSync(path.join(ROOT, 'examples', name), copy, { recursive: true })
      const env = { PATH, HOME: folder, BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key }
      await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: copy }) // npm needs the computer's own environment
      await installSdk(path.join(copy, 'node_modules/@berth/sdk'))
      writeFileSync(path.join(copy, 'tsconfig.json'), JSON.stringify({ compilerOptions: TYPES, include: ['*.ts'] }))
      await printed('npx', ['--no-install', 'tsc'], { cwd: copy, env })
      const out = await printed(process.execPath, ['--disable-warning=ExperimentalWarning', '--test', '--test-reporter=tap'], {
        cwd: copy,
        env,
      })
      assert.match(out, new RegExp(`^# pass ${passes}\n# fail 0$`, 'm'), out)
    })
}

const TYPES = {
  ...{ target: 'es2024', lib: ['es2024', 'esnext.disposable', 'dom', 'dom.asynciterable'], module: 'nodenext', types: ['node'] },
  ...{ noEmit: true, strict: true, skipLibCheck: true, allowImportingTsExtensions: true, verbatimModuleSyntax: true },
}

async function installSdk(at: string): Promise<void> {
  mkdirSync(at, { recursive: true })
  cpSync(path.join(ROOT, 'sdk/typescript/package.json'), path.join(at, 'package.json'))
  await buildSdk(path.join(at, 'dist'))
}

async function printed(program: string, args: readonly string[], options: { cwd: string; env: Record<string, string> }): Promise<string> {
  const ran = run(program, args, { ...options, maxBuffer: 64 << 20 })
  const { stdout, stderr } = await ran.catch((error: unknown) => {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`${program} failed: ${stdout}${stderr}`)
  })
  return stdout + stderr
}
