// `node tools/go-fuzz.mjs [--seconds 60] [WORD…]`: fuzzes Go targets whose name contains a word. Go stores failing inputs in testdata/fuzz,
// and `go test` then includes them.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { fileURLToPath } from 'node:url'
import { goPackages, MACHINE } from './checks/go.mjs'
import { canEnclose, INSIDE_VARIABLE, startEnclosed } from './enclosure/enclosure.mjs'
import { report } from './setup/main.mjs'

await report(() => {
  // Runs in an enclosure, because Go's fuzz workers do not receive a signal to this process.
  if (process.env[INSIDE_VARIABLE] === undefined && canEnclose())
    return startEnclosed([process.execPath, fileURLToPath(import.meta.url), ...process.argv.slice(2)], { env: process.env }).ended
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { seconds: { type: 'string', default: '60' } } })
  const targets = fuzzTargets().filter(({ name }) => positionals.length === 0 || positionals.some((word) => name.includes(word)))
  if (targets.length === 0) throw new Error('There is no such fuzz target.')
  const failed = targets.filter(({ folder, name }) => {
    process.stdout.write(`${folder} ${name}, ${values.seconds} s\n`)
    const fuzz = ['test', '-run', '^$', '-fuzz', `^${name}$`, '-fuzztime', `${values.seconds}s`, `./${folder}`]
    return spawnSync('go', fuzz, { cwd: MACHINE, stdio: 'inherit' }).status !== 0
  })
  const names = failed.map(({ name }) => name).join(', ')
  process.stdout.write(failed.length === 0 ? `${targets.length} targets: nothing was found\n` : `found something: ${names}\n`)
  return failed.length === 0 ? 0 : 1
})

/** Reads the sources, because `go test -list` would link every package. */
function fuzzTargets() {
  const { plain, machines } = goPackages()
  return [...plain, ...machines].flatMap((folder) =>
    readdirSync(join(MACHINE, folder))
      .filter((file) => file.endsWith('_test.go'))
      .flatMap((file) => [...readFileSync(join(MACHINE, folder, file), 'utf8').matchAll(/^func (Fuzz\w+)\(/gm)])
      .map(([, name]) => ({ folder, name })),
  )
}
