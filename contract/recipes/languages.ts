export interface LanguageVersion {
  version: string
  packages?: readonly string[]
  npm?: string
}

export interface Language {
  name: string
  /** The first version is the default. */
  versions: readonly [LanguageVersion, ...LanguageVersion[]]
}

const debian = (version: string, ...packages: string[]): LanguageVersion => ({ version, packages })
const node = (version: string): LanguageVersion => ({ version, npm: `node@${version}` })

/** Versions that Debian 12 and npm provide. */
export const LANGUAGES: readonly Language[] = [
  { name: 'c', versions: [debian('12', 'build-essential', 'pkg-config')] },
  { name: 'go', versions: [debian('1.19', 'golang-go')] },
  { name: 'java', versions: [debian('17', 'openjdk-17-jdk-headless')] },
  { name: 'node', versions: [node('24'), node('22'), node('20')] },
  { name: 'php', versions: [debian('8.2', 'php-cli')] },
  { name: 'python', versions: [debian('3.11', 'python3', 'python3-pip', 'python3-venv')] },
  { name: 'ruby', versions: [debian('3.1', 'ruby')] },
  { name: 'rust', versions: [debian('1.63', 'rustc', 'cargo')] },
]

export function findLanguage(name: string, version?: string): LanguageVersion | undefined {
  const versions = LANGUAGES.find((language) => language.name === name)?.versions
  return version === undefined ? versions?.[0] : versions?.find((one) => one.version === version)
}

/** Hosts that the egress mode `auto` allows for a build. */
export const PACKAGE_HOSTS: readonly { host: string; ports: readonly number[] }[] = [
  { host: 'deb.debian.org', ports: [80, 443] },
  { host: 'security.debian.org', ports: [80, 443] },
  { host: 'registry.npmjs.org', ports: [443] },
  { host: 'pypi.org', ports: [443] },
  { host: 'files.pythonhosted.org', ports: [443] },
]
