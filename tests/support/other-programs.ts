import { appendFileSync, chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

export interface OtherPrograms extends Disposable {
  folder: string
  engine(): string
  /** To gVisor, the same code with another version is another engine. */
  engineOf(first: string, version: string): string
  agent(): string
}

export function otherPrograms(): OtherPrograms {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-programs-'))
  const copy = (name: string, from: string | undefined) => {
    const to = path.join(folder, name)
    copyFileSync(from ?? '', to)
    chmodSync(to, 0o755)
    return to
  }
  return {
    folder,
    engine: () => copy('runsc', process.env['BERTH_TEST_RUNSC']),
    engineOf(first, version) {
      const file = path.join(folder, version)
      const text = readFileSync(process.env['BERTH_TEST_RUNSC'] ?? '').toString('latin1')
      writeFileSync(file, Buffer.from(text.replaceAll(first, version), 'latin1'), { mode: 0o755 })
      return file
    },
    agent() {
      const file = copy('agent', process.env['BERTH_TEST_AGENT'])
      appendFileSync(file, 'another build')
      return file
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** Of the same length, to replace the version in the binary. */
export function otherVersion(first: string, ...letters: [string, string]): string {
  const [letter, instead] = letters
  return first.slice(0, -1) + (first.endsWith(letter) ? instead : letter)
}
