// `npm run build:clients`: the packages as JavaScript, for platforms that do not run TypeScript, and as they are published.
import { build, type BuildOptions, type Plugin } from 'esbuild'
import { chmodSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync } from 'node:zlib'

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

/**
 * The command line as one file. In CommonJS what a module asks of Node.js is read when the module is wanted; imports would be read before
 * the first line runs.
 */
export async function bundleCli(outfile: string): Promise<void> {
  const { version } = JSON.parse(readFileSync(path.join(ROOT, 'cli/package.json'), 'utf8')) as { version: string }
  const options = { ...COMMON, platform: 'node', target: 'node22', define: { BERTH_CLI_VERSION: JSON.stringify(version) } } as const
  // Some CommonJS code in it asks for modules of Node.js by `require`, and a module that is read from text has no address to begin at.
  const banner = { js: `import { createRequire as berthRequire } from 'node:module'; const require = berthRequire('file:///');` }
  const { outputFiles } = await build({ ...options, entryPoints: ['cli/src/mcp.ts'], banner, write: false })
  const packed = brotliCompressSync(outputFiles[0]?.contents ?? '').toString('base64')
  await build({ ...options, format: 'cjs', entryPoints: ['cli/src/main.ts'], plugins: [packedMcp(packed)], outfile })
  chmodSync(outfile, 0o755)
}

/**
 * The protocol's library is nine tenths of the command line, and Node.js parses all of a file before its first line runs. So it is text in
 * the file, which is read where it is wanted.
 */
function packedMcp(packed: string): Plugin {
  return {
    name: 'packed-mcp',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /\/mcp\.ts$/ }, ({ path }) => ({ path, namespace: 'packed' }))
      onLoad({ filter: /.*/, namespace: 'packed' }, () => ({
        contents: `
          import { brotliDecompressSync } from 'node:zlib'
          const text = brotliDecompressSync(Buffer.from('${packed}', 'base64')).toString('base64')
          export const serveMcp = async (context) => (await import('data:text/javascript;base64,' + text)).serveMcp(context)`,
      }))
    },
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await bundleSdk('main', 'sdk/typescript/dist/main.js')
  await bundleSdk('testing/double', 'sdk/typescript/dist/testing.js')
  await bundleCli(path.join(ROOT, 'cli/dist/berth.cjs'))
}
