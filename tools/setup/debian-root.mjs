// A root file system made from Debian's packages: of a template, or of a whole computer of the tests.
import { aptOptions, sourcesFor } from './debian-mirror.mjs'

// A mount namespace of its own: whatever the build mounts is gone with its last process, however that ends.
export const ISOLATION = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--mount-proc']

/** What mmdebstrap is told of every root: `variant` is minbase, standard, … */
export function rootFlags(variant) {
  return ['--mode=root', `--variant=${variant}`, '--format=directory', '--quiet']
}

/** Installs Debian into the folder `root`, from the mirrors of this host, by `run` of a cached build. `flags` are mmdebstrap's. */
export async function installDebian({ run, suite, root, packages, flags, env, timeout_seconds }) {
  const options = ['APT::Sandbox::User "root"', ...(await aptOptions())].map((option) => `--aptopt=${option}`)
  const command = ['mmdebstrap', ...flags, `--include=${packages.join(',')}`, ...options]
  await run('unshare', [...ISOLATION, ...command, suite, root, ...(await sourcesFor(suite))], {
    env: { ...process.env, LC_ALL: 'C.UTF-8', ...env },
    timeout_seconds,
  })
}
