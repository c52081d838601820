const CAPACITIES = ['cpu_millis', 'memory_mib', 'disk_gib']
const LIFETIMES = ['persistent', 'session']
const GUEST_FEATURES = ['browser']
const IDLE_SECONDS = { min: 60, max: 604_800 }

const text = (value) => typeof value === 'string' && value !== '' && !/[\r\n\0]/.test(value)
const matches = (pattern) => (value) => typeof value === 'string' && pattern.test(value)
const absolutePath = matches(/^(\/[A-Za-z0-9._*+-]+)+$/)
const debianPackage = matches(/^[a-z0-9][a-z0-9+.-]+$/)
const positive = (value) => Number.isSafeInteger(value) && value > 0
const listOf = (check) => (value) => Array.isArray(value) && value.every(check)
const envValues = (value) =>
  isObject(value) && Object.entries(value).every(([name, each]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && text(each))

// Each field has [check, description]. Unknown fields are refused, because a misspelt one would be ignored silently.
const RECIPE = {
  name: [matches(/^[a-z][a-z0-9-]{0,62}$/), 'a slug'],
  description: [text, 'a sentence'],
  suite: [matches(/^[a-z]+$/), 'the name of a Debian release'],
  debian_packages: [listOf(debianPackage), 'a list of Debian package names'],
  debian_path_excludes: [listOf(absolutePath), 'a list of absolute path patterns'],
  debian_path_includes: [listOf(absolutePath), 'a list of absolute path patterns'],
  npm_packages: [Array.isArray, 'a list'],
  user: [isObject, 'an object'],
  settings: [isObject, 'an object'],
}
const NPM_PACKAGE = {
  name: [matches(/^(@[a-z0-9-]+\/)?[a-z0-9][a-z0-9._-]*$/), 'an npm package name'],
  version: [matches(/^\d+\.\d+\.\d+$/), 'an exact version'],
  integrity: [matches(/^sha512-[A-Za-z0-9+/]{86}==$/), 'the sha512 integrity of the package'],
  architecture: [(value) => value === undefined || value === 'amd64' || value === 'arm64', 'amd64, arm64 or left out'],
  into: [absolutePath, 'an absolute path'],
}
const USER = {
  name: [matches(/^[a-z_][a-z0-9_-]{0,31}$/), 'a user name'],
  uid: [positive, 'a positive number'],
  gid: [positive, 'a positive number'],
  home: [absolutePath, 'an absolute path'],
  shell: [absolutePath, 'an absolute path'],
}
const SETTINGS = {
  env: [envValues, 'an object of names and one-line texts'],
  inputs: [isObject, 'an object'],
  defaults: [isObject, 'an object'],
  ceiling: [isObject, 'an object'],
  start: [(value) => value === undefined || Array.isArray(value), 'a list'],
  services: [(value) => value === undefined || Array.isArray(value), 'a list'],
  guest_features: [(value) => value === undefined || listOf((each) => GUEST_FEATURES.includes(each))(value), 'a list of guest features'],
}
const CEILING = Object.fromEntries(CAPACITIES.map((name) => [name, [positive, 'a positive number']]))
const DEFAULTS = {
  ...CEILING,
  lifetime: [(value) => LIFETIMES.includes(value), LIFETIMES.join(' or ')],
  idle_policy: [isIdlePolicy, `adaptive, never, or fixed:<${IDLE_SECONDS.min}..${IDLE_SECONDS.max}>`],
}

export function extendedBy(json) {
  const { extends: name } = JSON.parse(json)
  if (name !== undefined && !RECIPE.name[0](name)) throw new Error('The recipe is not valid:\n- extends must be a slug')
  return name
}

/** Reports all problems in one error. A recipe that extends another adds its own Debian and npm packages. */
export function parseRecipe(json, extended_json) {
  const recipe = extended_json === undefined ? JSON.parse(json) : extend(JSON.parse(extended_json), JSON.parse(json))
  const problems = problemsOf(recipe)
  if (problems.length > 0) throw new Error(`The recipe is not valid:\n${problems.map((problem) => `- ${problem}`).join('\n')}`)
  return recipe
}

function extend(extended, own) {
  const both = (packages) => [...extended[packages], ...(own[packages] ?? [])]
  const recipe = { ...extended, ...own, debian_packages: both('debian_packages'), npm_packages: both('npm_packages') }
  delete recipe.extends
  return recipe
}

function problemsOf(recipe) {
  const problems = check('', recipe, RECIPE)
  if (problems.length > 0) return problems
  const { defaults, ceiling } = recipe.settings
  problems.push(
    ...recipe.npm_packages.flatMap((each, at) => check(`npm_packages[${at}].`, each, NPM_PACKAGE)),
    ...check('user.', recipe.user, USER),
    ...check('settings.', recipe.settings, SETTINGS),
    ...(isObject(defaults) ? check('settings.defaults.', defaults, DEFAULTS) : []),
    ...(isObject(ceiling) ? check('settings.ceiling.', ceiling, CEILING) : []),
  )
  if (problems.length > 0) return problems
  return CAPACITIES.filter((name) => defaults[name] > ceiling[name]).map(
    (name) => `settings.defaults.${name} is above settings.ceiling.${name}`,
  )
}

function check(where, value, fields) {
  if (!isObject(value)) return [`${where.slice(0, -1) || 'the recipe'} must be an object`]
  return [
    ...Object.keys(value)
      .filter((name) => !Object.hasOwn(fields, name))
      .map((name) => `${where}${name} is not a known field`),
    ...Object.entries(fields)
      .filter(([name, [valid]]) => !valid(value[name]))
      .map(([name, [, what]]) => `${where}${name} must be ${what}`),
  ]
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isIdlePolicy(value) {
  if (value === 'adaptive' || value === 'never') return true
  const seconds = Number(/^fixed:([1-9]\d*)$/.exec(value)?.[1])
  return seconds >= IDLE_SECONDS.min && seconds <= IDLE_SECONDS.max
}
