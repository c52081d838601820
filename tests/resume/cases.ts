import { readFileSync } from 'node:fs'
import path from 'node:path'

export const PROGRAM = readFileSync(path.join(import.meta.dirname, 'cases.py'), 'utf8')

/** The cases of cases.py. `text` is the docstring, without its full stop. */
export const CASES: readonly { name: string; text: string }[] = [...PROGRAM.matchAll(/^def (\w+)\(\):\n {4}"""(.+)\."""\n/gm)].map(
  ([, name = '', text = '']) => ({ name, text }),
)
