import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { LIMITS } from '../../../../../contract/limits.ts'
import type { BuildUpload } from '../../../../core/templates/build-plan.ts'
import { followToEnd } from '../../../filetree/executions/output.ts'
import { BuildFailed } from '../failed.ts'
import { bringFile, bringUpload } from '../files.ts'
import type { Guest } from '../steps.ts'

/** On the disk, because an upload may be larger than the machine's memory. */
const PLACE = '/var/tmp/.berth-base'
export const BASE_ROOT = `${PLACE}/work/root`
const PROGRAMS = ['tar_tree.py', 'base.py'] as const
const OUTPUT_BYTES_MAX = 16 << 10
const EXIT_REFUSED = 3
const GIB = 2 ** 30

/** Unpacks in a machine, so that a hostile upload harms that machine alone. @throws BuildFailed if the upload is invalid */
export async function unpackBase(guest: Guest, upload: BuildUpload, entries_max: number): Promise<void> {
  const { link, bounds, plan, uploads_dir } = guest
  if (uploads_dir === null) throw new BuildFailed('this installation keeps no uploads')
  for (const name of PROGRAMS) {
    const content_base64 = readFileSync(join(import.meta.dirname, name)).toString('base64')
    await bringFile(link, { path: `${PLACE}/${name}`, content_base64, user: 'root', mode: '0600' }, bounds)
  }
  await bringUpload(link, uploads_dir, upload, bounds, `${PLACE}/upload`).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw new BuildFailed('the upload of the base is not there any more', null, null, { cause: error })
  })
  const sizes = [plan.resources.disk_gib * GIB, entries_max].map(String)
  const argv = ['/usr/bin/python3', '-B', '-E', '-s', `${PLACE}/base.py`, `${PLACE}/upload`, `${PLACE}/work`, ...sizes]
  const session_id = 'build-base'
  const timeout_ms = LIMITS.build.step_seconds_max * 1000
  const { body } = await link.startExec(
    { session_id, fingerprint: session_id, argv, cwd: '/', user: 'root', env: { LANG: 'C.UTF-8' }, timeout_ms },
    bounds,
  )
  if (body.state === 'failed_to_start') throw new BuildFailed('the base of the platform cannot unpack uploads: it has no Python')
  const { ending, stdout, stderr } = await followToEnd(link, session_id, OUTPUT_BYTES_MAX, bounds)
  guest.say(stdout)
  if (ending.exit_code === 0) return
  guest.say(stderr)
  if (ending.timed_out) throw new BuildFailed(`the base was not unpacked within ${LIMITS.build.step_seconds_max} seconds`)
  if (ending.exit_code !== EXIT_REFUSED)
    throw new BuildFailed('unpacking the base was ended: the memory of the machine may not suffice', null, ending.exit_code)
  throw new BuildFailed(`the upload is no base: ${stderr.toString().trim().slice(0, 500)}`)
}
