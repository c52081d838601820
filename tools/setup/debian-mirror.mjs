// Templates are built from the host's own mirrors, so they build wherever the host can install packages.
import { run } from './cached-build.mjs'

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const TARGETS = ['indextargets', '--format', '$(ORIGIN)|$(RELEASE)|$(REPO_URI)', 'Created-By: Packages']
// Options that decide whether mirrors are reachable and trusted. They are not stored in the template.
const PASSED_ON = /^Acquire::(https?::Proxy(::[^ ]*)?|Check-Valid-Until|Check-Date|Retries) "(?!")/

/** No sources if the host is not a Debian: mmdebstrap then uses its own default. */
export async function sourcesFor(suite) {
  const targets = await run('apt-get', TARGETS)
  const sources = sourcesFrom(targets, suite)
  if (sources.length > 0) return sources
  // Fetches package lists, because apt learns a mirror's origin only from them, and minimal images have none.
  await run('apt-get', ['update', '-qq'], { timeout_seconds: 300 })
  return sourcesFrom(await run('apt-get', TARGETS), suite)
}

export function sourcesFrom(targets, suite) {
  // Omits a URI with a password, which must not be written into an image.
  const debian = targets
    .split('\n')
    .map((line) => line.split('|'))
    .filter(([origin, , uri]) => origin === 'Debian' && /^https?:\/\/[^@]+$/.test(uri))
  const security = debian.find(([, release]) => release.endsWith('-security'))
  const main = debian.find(([, release]) => /^[a-z]+$/.test(release))
  const line = (uri, name) => `deb [signed-by=${KEYRING}] ${uri} ${name} main`
  if (!main) return []
  return [line(main[2], suite), line(main[2], `${suite}-updates`), ...(security ? [line(security[2], `${suite}-security`)] : [])]
}

export async function aptOptions() {
  return aptOptionsFrom(await run('apt-config', ['dump', 'Acquire']))
}

export function aptOptionsFrom(dump) {
  return dump.split('\n').filter((line) => PASSED_ON.test(line))
}
