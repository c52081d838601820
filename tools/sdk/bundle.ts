// `npm run build:clients`: the packages as JavaScript, for platforms that do not run TypeScript, and as they are published.
import { build, type BuildOptions } from 'esbuild'
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await bundleSdk('main', 'sdk/typescript/dist/main.js')
  await bundleSdk('testing/double', 'sdk/typescript/dist/testing.js')
}
