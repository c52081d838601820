// `npm run build:clients`: the packages as JavaScript, for platforms that do not run TypeScript, and as they are published.
import { build, type BuildOptions } from 'esbuild'
import { chmodSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const COMMON = { bundle: true, format: 'esm', minify: true, legalComments: 'none', absWorkingDir: ROOT } satisfies BuildOptions

/** The SDK as one module that needs no other. @returns its text */
export async function bundleSdk(entry: 'main' | 'testing/double', outfile?: string): Promise<string> {
  const options: BuildOptions = { ...COMMON, entryPoints: [`sdk/typescript/src/${entry}.ts`], platform: 'neutral', target: 'es2022' }
  const { outputFiles } = await build({ ...options, write: false })
  const text = outputFiles[0]?.text ?? ''
  if (outfile !== undefined) await build({ ...options, outfile })
  return text
}

/** The command line as one file. */
export async function bundleCli(outfile: string): Promise<void> {
  const { version } = JSON.parse(readFileSync(path.join(ROOT, 'cli/package.json'), 'utf8')) as { version: string }
  const define = { BERTH_CLI_VERSION: JSON.stringify(version) }
  // Of what the bundle has that is CommonJS, some asks for modules of Node.js by require.
  const banner = { js: "import { createRequire as berthRequire } from 'node:module'; const require = berthRequire(import.meta.url);" }
  await build({ ...COMMON, entryPoints: ['cli/src/main.ts'], platform: 'node', target: 'node22', define, banner, outfile })
  chmodSync(outfile, 0o755)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await bundleSdk('main', 'sdk/typescript/dist/main.js')
  await bundleSdk('testing/double', 'sdk/typescript/dist/testing.js')
  await bundleCli(path.join(ROOT, 'cli/dist/berth.mjs'))
}
