import { aptOptions, sourcesFor } from './debian-mirror.mjs'

// The build's mounts disappear with its last process, even if that is killed.
export const ISOLATION = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--mount-proc']

export function rootFlags(variant) {
  return ['--mode=root', `--variant=${variant}`, '--format=directory', '--quiet']
}

/** Installs Debian from the mirrors of this host. `flags` are flags of mmdebstrap. */
export async function installDebian({ run, suite, root, packages, flags, env, timeout_seconds }) {
  const options = ['APT::Sandbox::User "root"', ...(await aptOptions())].map((option) => `--aptopt=${option}`)
  const command = ['mmdebstrap', ...flags, `--include=${packages.join(',')}`, ...options]
  await run('unshare', [...ISOLATION, ...command, suite, root, ...(await sourcesFor(suite))], {
    env: { ...process.env, LC_ALL: 'C.UTF-8', ...env },
    timeout_seconds,
  })
}
