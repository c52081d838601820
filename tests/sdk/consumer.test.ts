import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { buildSdk } from '../../tools/sdk/bundle.ts'
import { patience } from '../support/patience.ts'

const run = promisify(execFile)
const ROOT = path.resolve(import.meta.dirname, '../..')
const TSC = path.join(ROOT, 'node_modules/typescript/bin/tsc')
const TSC_MS = 120_000

/** Uses each entry, and types that declarations need from other libraries. */
const PROGRAM = `
import { Berth, BerthError, CommandError, type CommandResult, type ExecOptions, type Workspace, type wire } from '@berth/sdk'
import { createDouble } from '@berth/sdk/testing'

export async function main(): Promise<string> {
  const { berth } = createDouble({ programs: { greet: ({ stdout }) => void stdout('hello') } })
  const ws: Workspace = await berth.open('consumer', { template: 'base' })
  const options: ExecOptions = { check: true, onOutput: ({ text }) => text.length }
  const result: CommandResult = await ws.exec(['greet'], options)
  const command = await ws.start(['greet'])
  for await (const chunk of command) chunk.bytes.byteLength
  await command[Symbol.asyncDispose]()
  const view: wire.Workspace = await ws.refresh()
  // @ts-expect-error The key of a workspace is no number: a declaration that is missing would make it \`any\`.
  const wrong: number = view.key
  return result.stdout + (wrong ? '' : '') + (Berth.length + BerthError.length + CommandError.length > 0 ? '' : '')
}
`

/** Each setting also checks the declarations, because `skipLibCheck` is off. */
const SETTINGS: Record<string, { compilerOptions: object; type?: 'commonjs' }> = {
  'nodenext, strict': { compilerOptions: { module: 'nodenext', target: 'es2022', types: ['node'] } },
  'node16 in an ES module': { compilerOptions: { module: 'node16', target: 'es2022', types: ['node'], exactOptionalPropertyTypes: true } },
  'a bundler': {
    compilerOptions: { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom', 'dom.asynciterable'], types: [] },
  },
  'nodenext in CommonJS': { compilerOptions: { module: 'nodenext', target: 'es2023', types: ['node'] }, type: 'commonjs' },
}

let folder: string
before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'berth-consumer-'))
  const built = path.join(folder, 'package')
  mkdirSync(built)
  for (const file of ['package.json', 'README.md']) cpSync(path.join(ROOT, 'sdk/typescript', file), path.join(built, file))
  await buildSdk(path.join(built, 'dist'))
  const packed = await run('npm', ['pack', '--ignore-scripts', '--silent'], { cwd: built })
  mkdirSync(path.join(folder, 'node_modules/@berth'), { recursive: true })
  await run('tar', ['-xzf', path.join(built, packed.stdout.trim()), '-C', path.join(folder, 'node_modules/@berth')])
  await run('mv', ['package', 'sdk'], { cwd: path.join(folder, 'node_modules/@berth') })
  for (const name of ['@types', 'undici-types']) symlinkSync(path.join(ROOT, 'node_modules', name), path.join(folder, 'node_modules', name))
})
after(() => rmSync(folder, { recursive: true }))

for (const [name, { compilerOptions, type = 'module' }] of Object.entries(SETTINGS))
  test(`a project that installs the package type-checks: ${name}`, { timeout: patience(TSC_MS) }, async () => {
    const project = path.join(folder, name.replaceAll(/\W+/g, '-'))
    mkdirSync(project)
    writeFileSync(path.join(project, 'package.json'), JSON.stringify({ type }))
    writeFileSync(path.join(project, 'main.ts'), PROGRAM)
    const options = { strict: true, noEmit: true, skipLibCheck: false, ...compilerOptions }
    writeFileSync(path.join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: ['main.ts'] }))
    const said = await run(process.execPath, [TSC], { cwd: project }).catch((error: unknown) => error as { stdout: string })
    assert.equal(said.stdout, '')
  })

test('the installed package runs, by import and by require', async () => {
  writeFileSync(
    path.join(folder, 'run.cjs'),
    `require('@berth/sdk/testing'); import('@berth/sdk').then(({ Berth }) => console.log(Berth.name))`,
  )
  const { stdout } = await run(process.execPath, ['--disable-warning=ExperimentalWarning', 'run.cjs'], { cwd: folder })
  assert.notEqual(stdout.trim(), '')
})
