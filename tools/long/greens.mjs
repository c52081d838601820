import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The last passed run of each part: `{ at, commit, minutes, seed }`. */
export function openGreens(cache_dir) {
  const file = join(cache_dir, 'long-run.json')
  const read = () => {
    try {
      return JSON.parse(readFileSync(file, 'utf8'))
    } catch (error) {
      if (error.code === 'ENOENT') return {}
      throw new Error(`${file} cannot be read (${error.message}): remove it, and every part counts as never green`, { cause: error })
    }
  }
  const note = (name, green) => {
    mkdirSync(dirname(file), { recursive: true })
    // A rename, so that a concurrent run never reads a partly written file.
    writeFileSync(`${file}.${process.pid}`, `${JSON.stringify({ ...read(), [name]: green }, null, 2)}\n`)
    renameSync(`${file}.${process.pid}`, file)
  }
  return { read, note }
}

export function nextPart(parts, greens) {
  const at = ({ name }) => greens[name]?.at ?? ''
  return parts.reduce((oldest, part) => (at(part) < at(oldest) ? part : oldest))
}

export function listOf(parts, greens) {
  const width = Math.max(...parts.map(({ name }) => name.length))
  return parts
    .map(({ name, adds }) => {
      const green = greens[name]
      const when =
        green === undefined
          ? 'never'
          : `${green.at.slice(0, 16)}Z ${green.commit.slice(0, 12)} ${green.minutes.toFixed(0)} min, seed ${green.seed}`
      return `${name.padEnd(width)}  ${when.padEnd(56)}  ${adds}\n`
    })
    .join('')
}
