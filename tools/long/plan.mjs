import { spawn } from 'node:child_process'

/** Those of `parts` that the words name; all without a word. Throws for a word that names none. */
export function chosenParts(parts, words) {
  const names = parts.map(({ name }) => name)
  const unknown = words.filter((word) => !names.includes(word))
  if (unknown.length > 0) throw new Error(`${unknown.join(', ')} is no part of the long run. Its parts are ${names.join(', ')}.`)
  return parts.filter(({ name }) => words.length === 0 || words.includes(name))
}

/**
 * Runs one part after the other, also when one has failed; after `signal` none is begun. Returns `{ name, ended_as, seconds }` of each,
 * where `ended_as` is an exit code, the name of a signal, or `not run`.
 */
export async function runParts(parts, { cwd, log, signal }) {
  const results = []
  for (const { name, adds, command, env } of parts) {
    const started = performance.now()
    log(`\n===== ${name}: ${adds}`)
    const ended_as = signal.aborted ? 'not run' : await ran(command, { ...process.env, ...env }, cwd, signal)
    results.push({ name, ended_as, seconds: (performance.now() - started) / 1000 })
  }
  return results
}

/** The table at the end. */
export function tableOf(results) {
  const width = Math.max(...results.map(({ name }) => name.length))
  const said = ({ ended_as }) => (ended_as === 0 ? 'passed' : ended_as === 'not run' ? 'NOT RUN' : `FAILED (${ended_as})`)
  return results
    .map((result) => `${result.name.padEnd(width)}  ${`${(result.seconds / 60).toFixed(1)} min`.padStart(10)}  ${said(result)}\n`)
    .join('')
}

function ran(command, env, cwd, signal) {
  const child = spawn(process.execPath, command, { cwd, env, stdio: 'inherit' })
  const end = () => child.kill('SIGTERM')
  signal.addEventListener('abort', end, { once: true })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, ended_by) => {
      signal.removeEventListener('abort', end)
      resolve(code ?? ended_by)
    })
  })
}
