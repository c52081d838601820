import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { apiConfig, cellConfig, failpointsOf, portsConfig } from './config.mjs'
import { loadSettings, parseFlags } from './load.mjs'
import { SETTINGS, SettingsError, withoutSecrets } from './settings.mjs'

const data_dir = mkdtempSync('/tmp/berth-settings-test-')
after(() => rmSync(data_dir, { recursive: true }))
const load = (flags, env = {}) => loadSettings(['--data-dir', data_dir, ...flags], env)
const refused = (message) => (error) => error instanceof SettingsError && message.test(error.message)

test('a flag wins over the environment, that over the file, and the file over the default', () => {
  writeFileSync(join(data_dir, 'config.json'), JSON.stringify({ slots: 5, shells: 6, log_level: 'warn' }))
  const { settings, given } = load(['--slots', '7'], { BERTH_SLOTS: '8', BERTH_SHELLS: '9' })
  assert.deepEqual([settings.slots, settings.shells, settings.log_level, settings.uplink], [7, 9, 'warn', 'host'])
  assert.deepEqual([given.slots, given.shells, given.log_level, given.uplink], ['--slots', 'BERTH_SHELLS', 'file', 'default'])
  rmSync(join(data_dir, 'config.json'))
})

test('the limits of a caller are those of the contract unless they are set', () => {
  const { settings } = load(['--wrong-credentials-per-minute', '0'])
  assert.deepEqual([settings.caller_requests_per_minute, settings.wrong_credentials_per_minute], [LIMITS.caller.requests_per_minute, 0])
  assert.equal(SETTINGS.wrong_credentials_per_minute.fallback, LIMITS.caller.wrong_credentials_per_minute)
})

test('the variables of clients are not settings', () => {
  const given = { BERTH_URL: 'http://127.0.0.1:8080', BERTH_API_KEY: 'sfk_x', BERTH_PROJECT: 'p', BERTH_PROFILE: 'default' }
  assert.doesNotThrow(() => load([], given))
})

test('an unknown setting is refused in every source', () => {
  assert.throws(() => load(['--colour', 'red']), refused(/Unknown setting: --colour/))
  assert.throws(() => load([], { BERTH_COLOUR: 'red' }), refused(/BERTH_COLOUR/))
  writeFileSync(join(data_dir, 'config.json'), '{"colour": "red", "slot": 1}')
  assert.throws(() => load([]), refused(/colour in the configuration file, slot in/))
  rmSync(join(data_dir, 'config.json'))
})

test('an invalid value is refused with the name of its source', () => {
  for (const [flag, value] of [
    ['--slots', '65'],
    ['--slots', '1.5'],
    ['--api-listen', 'localhost:8080'],
    ['--api-listen', '127.0.0.1:0'],
    ['--base-url', 'ftp://x'],
    ['--machine-network', '10.0.0.0/28'],
    ['--run-dir', 'relative'],
    ['--resolvers', '1.1.1.1,one'],
    ['--engines-refused', 'berth-1,../berth-2'],
    ['--firewall', 'off'],
    ['--database-url', 'mysql://x'],
  ]) {
    assert.throws(() => load([flag, value]), refused(new RegExp(`^${flag} must be`)), `${flag} ${value}`)
  }
})

test('a payment service with only one of its two secrets is refused, and the missing one is named', () => {
  const [key, secret] = [
    ['--stripe-secret-key', 'sk_test_1'],
    ['--stripe-webhook-secret', 'whsec_1'],
  ]
  assert.throws(() => load(key), refused(/^stripe_webhook_secret is missing/))
  assert.throws(() => load(secret), refused(/^stripe_secret_key is missing/))
  assert.throws(() => load(['--stripe-secret-key', 'pk_test_1']), refused(/^--stripe-secret-key must be/))
  const { settings } = load([...key, ...secret, '--base-url', 'https://berth.example'])
  assert.deepEqual(apiConfig(settings).stripe, {
    secret_key: 'sk_test_1',
    webhook_secret: 'whsec_1',
    api_url: 'https://api.stripe.com',
    return_url: 'https://berth.example',
  })
  assert.deepEqual([apiConfig(load([]).settings).stripe, withoutSecrets(settings).stripe_secret_key], [null, '(hidden)'])
})

test('failpoints can be set by a flag alone', () => {
  assert.equal(load(['--failpoints', 'none']).settings.failpoints, 'none')
  assert.throws(() => load([], { BERTH_FAILPOINTS: 'none' }), refused(/BERTH_FAILPOINTS/))
  assert.throws(() => load([], { BERTH_FAILPOINT: 'x' }), refused(/BERTH_FAILPOINT/))
})

test('public addresses follow from where the service listens', () => {
  const { settings } = load(['--api-listen', '0.0.0.0:99', '--cell-listen', '[::1]:98'])
  assert.deepEqual([settings.base_url, settings.cell_endpoint], ['http://127.0.0.1:99', 'http://[::1]:98'])
})

test('trusted proxies of port URLs are a list of addresses and networks', () => {
  const { settings } = load(['--ports-trusted-proxies', '127.0.0.1, 10.0.0.0/8,::1,fd00::/8'])
  assert.deepEqual(settings.ports_trusted_proxies, ['127.0.0.1/32', '10.0.0.0/8', '::1/128', 'fd00::/8'])
  for (const wrong of ['10.0.0.0/33', 'x', '10.0.0.0/8/8', '::1/129', '10.0.0.0/'])
    assert.throws(() => load(['--ports-trusted-proxies', wrong]), refused(/addresses or networks/))
})

test('pages of other origins are allowed by name alone, and both api and gateway get the list', () => {
  const { settings } = load(['--cors-origins', 'https://app.example.com, http://localhost:5173'])
  const wanted = ['https://app.example.com', 'http://localhost:5173']
  assert.deepEqual([apiConfig(settings).cors_origins, cellConfig(settings).cors_origins], [wanted, wanted])
  assert.deepEqual([load([]).settings.cors_origins, load(['--cors-origins', '']).settings.cors_origins], [[], []])
  const wrong = [
    'app.example.com',
    'https://app.example.com/',
    'https://APP.example.com',
    'https://a.test:443',
    'https://*.a.test/x',
    'null',
  ]
  for (const value of wrong) assert.throws(() => load(['--cors-origins', value]), refused(/^--cors-origins must be origins/), value)
  assert.throws(() => load(['--cors-origins', 'https://a.test,*']), refused(/^--cors-origins must name each origin/))
})

test('the port proxy gets its public name, and serves TLS itself if it has a certificate', () => {
  const files = ['--ports-certificate', '/c', '--ports-key', '/k']
  const { settings } = load(['--ports-listen', '0.0.0.0:8443', '--ports-url', 'https://p.example.com:444', ...files])
  const { listen, port_host, public_scheme, certificate, key } = portsConfig(settings)
  assert.deepEqual([listen, port_host, public_scheme, certificate, key], ['0.0.0.0:8443', 'p.example.com', 'https', '/c', '/k'])
})

test('a database URL is taken from DATABASE_URL too, and never shown', () => {
  const { settings } = load([], { DATABASE_URL: 'postgres://user:password@host/db' })
  assert.equal(settings.database_url, 'postgres://user:password@host/db')
  assert.equal(JSON.stringify(withoutSecrets(settings)).includes('password'), false)
})

test('flags end at the first word that is not a flag', () => {
  assert.deepEqual(parseFlags(['--a-b', '1', '--c=2=3', 'key', '--d', '4']), { flags: { a_b: '1', c: '2=3' }, rest: ['key', '--d', '4'] })
  assert.throws(() => parseFlags(['--a']), refused(/--a needs a value/))
})

test('the instance follows from the data directory', () => {
  const { settings } = load([])
  assert.match(settings.instance, /^[0-9a-f]{4}$/)
  assert.equal(settings.run_dir, `/run/berth/${settings.instance}`)
  assert.equal(load([]).settings.instance, settings.instance)
})

test('each process gets its own failpoints', () => {
  assert.deepEqual(failpointsOf('hostd/stop.kill:kill9,open.O4:throw@/tmp/x,none'), {
    hostd: 'stop.kill:kill9',
    api: 'open.O4:throw@/tmp/x',
    cell: 'open.O4:throw@/tmp/x',
  })
})

test('the page for operators names settings that exist, with their defaults', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/operating/settings.md'), 'utf8')
  const rows = [...page.matchAll(/^\| (`.*?`) \| (.*?) \|/gm)]
  assert.ok(rows.length >= 12)
  for (const [, names, printed] of rows)
    for (const [, name] of names.matchAll(/`(.*?)`/g)) {
      const { fallback } = SETTINGS[name] ?? assert.fail(name)
      // Only plain values are compared, because derived values, pairs and 0 are documented in words.
      if (['number', 'string'].includes(typeof fallback) && fallback) assert.equal(printed.replaceAll('`', ''), String(fallback), name)
    }
})
