// `npm run build:clients`: builds the packages in the form in which they are published.
import { build, type BuildOptions, type Plugin } from 'esbuild'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { declareSdk } from './declarations.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const COMMON = { bundle: true, format: 'esm', minify: true, legalComments: 'none', absWorkingDir: ROOT } satisfies BuildOptions

/**
 * `ws` remains external, for platforms without a WebSocket. Not minified, because Node.js prints the source line of an uncaught error,
 * which would be the whole module.
 * @returns its text
 */
export async function bundleSdk(entry: 'main' | 'testing/double', outfile?: string): Promise<string> {
  const options: BuildOptions = {
    ...COMMON,
    minify: false,
    entryPoints: [`sdk/typescript/src/${entry}.ts`],
    platform: 'neutral',
    target: 'es2022',
    external: ['ws'],
  }
  const { outputFiles } = await build({ ...options, write: false })
  const text = outputFiles[0]?.text ?? ''
  if (outfile !== undefined) await build({ ...options, outfile })
  return text
}

export async function buildSdk(dist: string): Promise<void> {
  await bundleSdk('main', path.join(dist, 'main.js'))
  await bundleSdk('testing/double', path.join(dist, 'testing.js'))
  declareSdk(path.join(dist, 'types'))
}

/** CommonJS, because it loads built-in modules on demand. With ESM all imports would be loaded first. */
export async function bundleCli(outfile: string): Promise<void> {
  const { version } = JSON.parse(readFileSync(path.join(ROOT, 'cli/package.json'), 'utf8')) as { version: string }
  const options = {
    ...COMMON,
    platform: 'node',
    target: 'node20.4',
    format: 'cjs',
    define: { BERTH_CLI_VERSION: JSON.stringify(version) },
  } as const
  const packed = await Promise.all(PACKED.map(async (library) => ({ ...library, text: await packedText(library.entry, options) })))
  await build({ ...options, entryPoints: ['cli/src/main.ts'], plugins: packed.map(packedLibrary), outfile })
  chmodSync(outfile, 0o755)
}

export function buildGuestSsh(folder: string): void {
  const hash = createHash('sha256')
  const env = { ...process.env, CGO_ENABLED: '0', GOOS: 'linux', GOFLAGS: '', GOWORK: 'off' }
  for (const architecture of ['amd64', 'arm64']) {
    const file = path.join(folder, `guestssh-${architecture}`)
    const words = ['build', '-trimpath', '-buildvcs=false', '-ldflags', '-s -w', '-o', file, './cmd/guestssh']
    execFileSync('go', words, {
      cwd: path.join(ROOT, 'machine'),
      env: { ...env, GOARCH: architecture },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const packed = gzipSync(readFileSync(file), { level: 9 })
    hash.update(packed)
    writeFileSync(`${file}.gz`, packed)
    rmSync(file)
  }
  // A connection reads this digest instead of the large servers.
  writeFileSync(path.join(folder, 'guestssh.name'), hash.digest('hex').slice(0, 16))
}

interface Library {
  entry: string
  named: RegExp
  exports: string
}

const PACKED: Library[] = [
  { entry: 'cli/src/mcp-library.ts', named: /\/mcp-library\.ts$/, exports: 'createMcpHandler, McpServer, StdioServerTransport, z' },
  { entry: 'node_modules/ws/index.js', named: /^ws$/, exports: 'WebSocket' },
]

async function packedText(entry: string, options: BuildOptions): Promise<string> {
  const { outputFiles } = await build({ ...options, entryPoints: [entry], write: false })
  return brotliCompressSync(outputFiles[0]?.contents ?? '').toString('base64')
}

/**
 * Stores a library as text, because Node.js parses a whole file before its first line runs. Only for libraries: a packed module of ours
 * would duplicate its classes, and `instanceof` would fail.
 */
function packedLibrary({ named, exports, text }: Library & { text: string }): Plugin {
  return {
    name: 'packed-library',
    setup({ onResolve, onLoad }) {
      const namespace = `packed ${named.source}`
      onResolve({ filter: named }, ({ path }) => ({ path, namespace }))
      onLoad({ filter: /.*/, namespace }, () => ({
        contents: `
          import { brotliDecompressSync } from 'node:zlib'
          const text = brotliDecompressSync(Buffer.from('${text}', 'base64')).toString()
          const library = { exports: {} }
          new Function('module', 'exports', 'require', text)(library, library.exports, require)
          export const { ${exports} } = library.exports`,
      }))
    },
  }
}

/** Builds nothing if the file `stamp` already contains `sources`. */
async function buildAll(stamp?: string, sources = ''): Promise<void> {
  if (stamp !== undefined && existsSync(stamp) && readFileSync(stamp, 'utf8') === sources) return
  await buildSdk(path.join(ROOT, 'sdk/typescript/dist'))
  await bundleCli(path.join(ROOT, 'cli/dist/berth.cjs'))
  buildGuestSsh(path.join(ROOT, 'cli/dist'))
  if (stamp !== undefined) writeFileSync(stamp, sources)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildAll(...process.argv.slice(2))
