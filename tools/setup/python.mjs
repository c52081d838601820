import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cachedBuild, run, timed } from './cached-build.mjs'
import { CLONE } from './packages.mjs'

const REQUIREMENTS = join(CLONE, 'sdk', 'python', 'tests', 'requirements.txt')

export async function pythonForTests({ settings, log }) {
  try {
    return { BERTH_TEST_PYTHONPATH: await packages(settings, log) }
  } catch (error) {
    log(`the Python packages of the tests could not be installed: ${error.message}`)
    return { BERTH_TEST_PYTHON_MISSING: error.message.split('\n')[0] }
  }
}

async function packages(settings, log) {
  // The key includes Python's version, because compiled packages fit only one version.
  const version = await run('python3', ['--version'])
  const wanted = createHash('sha256')
    .update(version + (await readFile(REQUIREMENTS, 'utf8')))
    .digest('hex')
  return cachedBuild({
    parent: join(settings.cache_dir, 'python'),
    key: wanted.slice(0, 16),
    build: ({ work, output, run: runs }) =>
      timed(log, 'Python packages of the tests are installed', async () => {
        const venv = join(work, 'venv')
        await runs('python3', ['-m', 'venv', venv], { timeout_seconds: 120 })
        const quietly = ['--quiet', '--disable-pip-version-check', '--only-binary', ':all:']
        // Installs with --target, because the finished folder is moved and a venv contains its own absolute path.
        await runs(join(venv, 'bin', 'pip'), ['install', ...quietly, '--target', output, '--requirement', REQUIREMENTS], {
          timeout_seconds: 300,
        })
      }),
  })
}
