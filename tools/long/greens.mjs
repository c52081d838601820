// When each part of the long run was last green: a file below the cache folder remembers.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Opens the file of a cache folder. Each entry is `{ at, commit, minutes, seed }`, by the name of a part. */
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
    // Another run may write at the same time: each reads what is there, and none sees half a file.
    writeFileSync(`${file}.${process.pid}`, `${JSON.stringify({ ...read(), [name]: green }, null, 2)}\n`)
    renameSync(`${file}.${process.pid}`, file)
  }
  return { read, note }
}

/** The part whose last green run is oldest: of those that never were green the first. */
export function nextPart(parts, greens) {
  const at = ({ name }) => greens[name]?.at ?? ''
  return parts.reduce((oldest, part) => (at(part) < at(oldest) ? part : oldest))
}

/** A line for each part: when it was green last, at which commit, and how long it took. */
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
