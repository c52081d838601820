import { spawn } from 'node:child_process'

/** @param words names of parts, or prefixes up to a `-`; none: all parts. */
export function chosenParts(parts, words) {
  const names = parts.map(({ name }) => name)
  const fits = (name, word) => name === word || name.startsWith(`${word}-`)
  const unknown = words.filter((word) => !names.some((name) => fits(name, word)))
  if (unknown.length > 0) throw new Error(`${unknown.join(', ')} is no part of the long run. Its parts are ${names.join(', ')}.`)
  return parts.filter(({ name }) => words.length === 0 || words.some((word) => fits(name, word)))
}

/** Continues after a failed part, but starts no part after `signal`. `ended_as` is an exit code, a signal name, `too long` or `not run`. */
export async function runParts(parts, { cwd, log, signal, minutes, began = () => undefined, ended = () => undefined }) {
  const results = []
  for (const part of parts) {
    const { name, adds, command, env } = part
    const started = performance.now()
    log(`\n===== ${name}: ${adds}`)
    if (!signal.aborted) began(part)
    const ended_as = signal.aborted ? 'not run' : await ran(command, { ...process.env, ...env }, { cwd, signal, minutes })
    const result = { name, ended_as, seconds: (performance.now() - started) / 1000 }
    results.push(result)
    ended(result)
  }
  return results
}

export function tableOf(results) {
  const width = Math.max(...results.map(({ name }) => name.length))
  const said = ({ ended_as }) => (ended_as === 0 ? 'passed' : ended_as === 'not run' ? 'NOT RUN' : `FAILED (${ended_as})`)
  return results
    .map((result) => `${result.name.padEnd(width)}  ${`${(result.seconds / 60).toFixed(1)} min`.padStart(10)}  ${said(result)}\n`)
    .join('')
}

async function ran(command, env, { cwd, signal, minutes }) {
  const child = spawn(process.execPath, command, { cwd, env, stdio: 'inherit' })
  const end = () => child.kill('SIGTERM')
  let is_too_long = false
  const bound = setTimeout(() => {
    is_too_long = true
    end()
  }, minutes * 60_000)
  signal.addEventListener('abort', end, { once: true })
  try {
    const ended_as = await new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code, ended_by) => resolve(code ?? ended_by))
    })
    return is_too_long ? 'too long' : ended_as
  } finally {
    clearTimeout(bound)
    signal.removeEventListener('abort', end)
  }
}
