import { ALLOW_ALL, DENY_ALL, type EgressPolicy } from '../../../../contract/egress/policy.ts'
import { normalHost } from '../../../../contract/egress/hosts.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { BuildEgress, Recipe } from '../../../../contract/schemas/recipes.ts'
import { findLanguage, PACKAGE_HOSTS } from '../../../../contract/recipes/languages.ts'

export type PlanStep =
  | { kind: 'run'; title: string; argv: string[]; cwd: string; user: string; env: Record<string, string>; timeout_seconds: number }
  | { kind: 'files'; title: string; files: PlannedFile[] }
  | { kind: 'copy'; title: string; sources: string[]; to: string; user: string; mode: string | null }

export interface PlannedFile {
  path: string
  content_base64: string
  user: string
  mode: string
}

const TITLE_CHARACTERS_MAX = 200
const APT = ['-o', 'APT::Install-Recommends=false', '-o', 'APT::Get::Assume-Yes=true', '-o', 'Dpkg::Use-Pty=0', '-o', 'Acquire::Retries=3']

/**
 * @param base_env the base's environment, which each step can override.
 * @param mirror of packages; null: Debian's.
 */
export function planSteps(recipe: Recipe, base_env: Readonly<Record<string, string>>, mirror: string | null = null): PlanStep[] {
  const env = { ...base_env, ...recipe.env }
  const root = { cwd: '/', user: 'root', timeout_seconds: LIMITS.build.step_seconds_max }
  const { packages, npm } = installed(recipe)
  const steps: PlanStep[] = []
  if (packages.length > 0) {
    const options = [...APT, ...(mirror === null ? [] : MIRRORED)].join(' ')
    const script = `${mirror === null ? '' : sourcesOf(mirror)}apt-get ${options} update && exec apt-get ${options} install "$@"`
    const apt = { ...env, DEBIAN_FRONTEND: 'noninteractive' }
    steps.push({
      kind: 'run',
      title: `install ${packages.join(' ')}`,
      argv: ['/bin/sh', '-c', script, 'install', ...packages],
      ...root,
      env: apt,
    })
  }
  for (const name of npm) {
    const argv = ['npm', 'install', '--global', '--force', '--no-fund', '--no-audit', name]
    steps.push({ kind: 'run', title: `install ${name}`, argv, ...root, env })
  }
  if (recipe.files !== undefined && recipe.files.length > 0) {
    const files = recipe.files.map(({ path, content, content_base64, user = 'root', mode = '644' }) => {
      return { path, content_base64: content_base64 ?? Buffer.from(content ?? '').toString('base64'), user, mode }
    })
    steps.push({ kind: 'files', title: `write ${files.length} files`, files })
  }
  for (const step of recipe.steps ?? []) {
    if ('copy' in step) {
      const { copy: sources, to, user = 'root', mode = null } = step
      steps.push({ kind: 'copy', title: `copy ${sources.join(' ')} to ${to}`, sources, to, user, mode })
    } else {
      const argv = typeof step.run === 'string' ? ['/bin/sh', '-ec', step.run] : step.run
      const { cwd = '/', user = 'root', timeout_seconds = LIMITS.build.step_seconds_default } = step
      const title = typeof step.run === 'string' ? step.run : step.run.join(' ')
      steps.push({ kind: 'run', title, argv, cwd, user, env: { ...env, ...step.env }, timeout_seconds })
    }
  }
  return steps.map((step) => ({ ...step, title: brief(step.title) }))
}

function installed({ packages = [], languages = [] }: Recipe): { packages: string[]; npm: string[] } {
  const found = languages.map(({ name, version }) => findLanguage(name, version))
  return {
    packages: [...new Set([...packages, ...found.flatMap((one) => one?.packages ?? [])])],
    npm: found.flatMap((one) => one?.npm ?? []),
  }
}

function brief(title: string): string {
  const line = title.trim().replaceAll(/\s+/g, ' ')
  return line.length <= TITLE_CHARACTERS_MAX ? line : `${line.slice(0, TITLE_CHARACTERS_MAX - 1).toWellFormed()}…`
}

export function planEgress(egress: BuildEgress = { mode: 'auto' }, mirror: string | null = null): EgressPolicy {
  switch (egress.mode) {
    case 'allow_all':
      return ALLOW_ALL
    case 'deny_all':
      return DENY_ALL
    case 'allowlist':
      return allowing(egress.allow_hosts ?? [])
    case 'auto': {
      const { rules, ...policy } = allowing(egress.extra_hosts ?? [])
      const known_hosts = mirror === null ? PACKAGE_HOSTS : [...PACKAGE_HOSTS, placeOf(mirror)]
      const packages = known_hosts.map(({ host, ports }) => ({ host, ports: [...ports], protocols: ['tcp' as const] }))
      return { ...policy, rules: [...packages, ...rules.filter(({ host }) => !packages.some((known) => known.host === host))] }
    }
  }
}

function placeOf(mirror: string): { host: string; ports: readonly number[] } {
  const { hostname, port, protocol } = new URL(mirror)
  return { host: hostname, ports: [port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)] }
}

/** Not a part of the version, because no layer contains /tmp. */
const SOURCES = '/tmp/.berth-sources'
const MIRRORED = ['-o', 'Dir::Etc::SourceList=/dev/null', '-o', `Dir::Etc::SourceParts=${SOURCES}`]

/** Only the main archive is mirrored. Security updates keep their own source. */
function sourcesOf(mirror: string): string {
  const lists = '/etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources'
  const text = mirror
    .replace(/\/$/, '')
    .replaceAll("'", '%27')
    .replaceAll(/[&#\\]/g, '\\$&') // for the shell and for sed
  const replaced = `s#https?://deb[.]debian[.]org/debian/?( |$)#${text}\\1#`
  return `mkdir -p ${SOURCES}; for list in ${lists}; do [ ! -f "$list" ] || sed -E '${replaced}' "$list" > ${SOURCES}/"\${list##*/}"; done; `
}

const BUILD_PORTS = [80, 443]

function allowing(hosts: readonly string[]): EgressPolicy {
  const names = hosts.map(normalHost).flatMap((one) => ('host' in one ? [one.host] : []))
  return { mode: 'allowlist', rules: [...new Set(names)].map((host) => ({ host, ports: [...BUILD_PORTS], protocols: ['tcp'] })), cidrs: [] }
}
