import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { patience } from './patience.ts'

export const ADMIN_PROGRAM = join(import.meta.dirname, '../../service/admin/main.ts')
const BOUND_MS = 120_000

export interface AdminPlaces {
  database_url: string
  layers_dir?: string
}

export interface AdminEnd {
  code: number
  stdout: string
  stderr: string
}

/** Excludes the test's environment, except the compile cache, which saves half of a command's half second. */
export function adminEnvironment(places: AdminPlaces): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE } = process.env
  return { BERTH_ADMIN: JSON.stringify(places), ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }) }
}

/** Resolves also if the command fails. */
export function adminEnd(places: AdminPlaces, ...args: string[]): Promise<AdminEnd> {
  const options = { env: adminEnvironment(places), timeout: patience(BOUND_MS) }
  return new Promise((resolve) => {
    execFile(process.execPath, [ADMIN_PROGRAM, ...args], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    )
  })
}

/** @returns the trimmed output. @throws an error with the fields of the command's `AdminEnd` */
export async function admin(database_url: string, ...args: string[]): Promise<string> {
  const end = await adminEnd({ database_url }, ...args)
  if (end.code !== 0) throw Object.assign(new Error(`${args.join(' ')} ended with ${end.code}: ${end.stderr}`), end)
  return end.stdout.trim()
}
