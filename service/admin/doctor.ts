import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { Output } from './command.ts'
import { judge, type Finding } from './doctor-checks.ts'
import { gather, type DoctorPaths } from './doctor-facts.ts'

const MARKS: Record<Finding['level'], string> = { ok: 'ok    ', notice: 'notice', wrong: 'WRONG ' }

/** @returns the exit code. */
export async function doctor(argv: string[], places: DoctorPaths, output: Output): Promise<number> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean', default: false } } })
  const findings = existsSync(places.data_dir) ? judge(places, await gather(places)) : [missing(places)]
  const healthy = findings.every(({ level }) => level !== 'wrong')
  if (values.json) output.line(JSON.stringify({ healthy, instance: places.instance, findings }, null, 2))
  else for (const { check, level, text } of findings) output.line(`${MARKS[level]}  ${check.padEnd(13)} ${text}`)
  return healthy ? 0 : 1
}

function missing({ data_dir }: DoctorPaths): Finding {
  return {
    check: 'data_dir',
    level: 'wrong',
    text: `${data_dir} is not there: nothing is installed at it, or data_dir names another folder`,
  }
}
