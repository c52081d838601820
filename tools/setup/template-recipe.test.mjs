import assert from 'node:assert/strict'
import { readFile, readdir } from 'node:fs/promises'
import { test } from 'node:test'
import { extendedBy, parseRecipe } from './template-recipe.mjs'

const TEMPLATES = new URL('../../templates/', import.meta.url)
const base = JSON.parse(await readFile(new URL('base/recipe.json', TEMPLATES), 'utf8'))

test('every recipe of the platform is valid and named like its folder', async () => {
  for (const name of await readdir(TEMPLATES)) {
    const textOf = (each) => readFile(new URL(`${each}/recipe.json`, TEMPLATES), 'utf8')
    const json = await textOf(name)
    const extended = extendedBy(json)
    const recipe = parseRecipe(json, extended === undefined ? undefined : await textOf(extended))
    assert.equal(recipe.name, name)
  }
})

test('every problem of a recipe is named at once', () => {
  assert.deepEqual(
    problems((recipe) => {
      recipe.suit = recipe.suite
      delete recipe.suite
      recipe.debian_packages.push('--evil')
    }),
    ['suit is not a known field', 'suite must be the name of a Debian release', 'debian_packages must be a list of Debian package names'],
  )
  assert.deepEqual(
    problems((recipe) => {
      recipe.npm_packages[0].version = '^24.0.0'
      recipe.user.uid = 0
      recipe.settings.env['A B'] = 'x'
    }),
    [
      'npm_packages[0].version must be an exact version',
      'user.uid must be a positive number',
      'settings.env must be an object of names and one-line texts',
    ],
  )
})

test('a default may be as large as the ceiling but not larger', () => {
  const withMemory = (memory_mib) =>
    problems((recipe) => {
      recipe.settings.defaults.memory_mib = memory_mib
    })
  assert.deepEqual(withMemory(base.settings.ceiling.memory_mib), [])
  assert.deepEqual(withMemory(base.settings.ceiling.memory_mib + 1), ['settings.defaults.memory_mib is above settings.ceiling.memory_mib'])
})

test('an idle policy is adaptive, never, or fixed from 60 to 604800 seconds', () => {
  const accepted = (idle_policy) =>
    problems((recipe) => {
      recipe.settings.defaults.idle_policy = idle_policy
    }).length === 0
  for (const policy of ['adaptive', 'never', 'fixed:60', 'fixed:604800']) assert.ok(accepted(policy), policy)
  for (const policy of ['fixed:59', 'fixed:604801', 'fixed:060', 'fixed:', 'fixed:1e3', 'none', '', null])
    assert.ok(!accepted(policy), String(policy))
})

test('a recipe that extends another adds its packages and inherits missing fields', () => {
  const own = { name: 'more', extends: 'base', description: 'More.', debian_packages: ['tree'] }
  assert.deepEqual(parseRecipe(JSON.stringify(own), JSON.stringify(base)), {
    ...base,
    name: 'more',
    description: 'More.',
    debian_packages: [...base.debian_packages, 'tree'],
  })
  const npm_package = { ...base.npm_packages.at(-1), name: 'more', into: '/opt/more' }
  const { npm_packages } = parseRecipe(JSON.stringify({ ...own, npm_packages: [npm_package] }), JSON.stringify(base))
  assert.deepEqual(npm_packages, [...base.npm_packages, npm_package])
  assert.throws(() => extendedBy('{"extends": "../evil"}'), /extends must be a slug/)
})

function problems(change) {
  const recipe = structuredClone(base)
  change(recipe)
  try {
    parseRecipe(JSON.stringify(recipe))
    return []
  } catch (error) {
    return error.message
      .split('\n')
      .slice(1)
      .map((line) => line.replace(/^- /, ''))
  }
}
