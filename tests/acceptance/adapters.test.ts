import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { isLong } from '../support/depth.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

const run = promisify(execFile)
const ROOT = path.resolve(import.meta.dirname, '../..')
const PARSES = 'import ast, sys\nfor file in sys.argv[1:]: ast.parse(open(file).read(), file)'
const { PATH = '' } = process.env

/** The suites of other projects, and how many of their tests there are. */
const ADAPTERS = [
  { name: 'langchain', passes: 86 },
  { name: 'inspect', passes: 44 },
]

test('the adapters for Python are programs of Python', { timeout: 60_000 }, async () => {
  const files = ADAPTERS.flatMap(({ name }) => {
    const folder = path.join(ROOT, 'examples', name)
    return readdirSync(folder).flatMap((file) => (file.endsWith('.py') ? [path.join(folder, file)] : []))
  })
  assert.ok(files.length >= ADAPTERS.length * 2)
  await run('python3', ['-c', PARSES, ...files])
})

// Their packages are hundreds of megabytes.
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
}
