import assert from 'node:assert/strict'
import { test } from 'node:test'
import { normalPolicy, policyIssues } from './check.ts'
import { normalCidr } from './cidrs.ts'
import { normalHost } from './hosts.ts'
import { hostCovers } from './policy.ts'

const CIDRS: [given: string, reason: string][] = [
  ...[
    '10.0.0.0/8',
    '172.16.0.0/12',
    '192.168.0.0/16',
    '100.64.0.0/10',
    '127.0.0.0/8',
    '169.254.0.0/16',
    '192.0.0.0/24',
    '198.18.0.0/15',
    '224.0.0.0/4',
    '240.0.0.0/4',
    '0.0.0.0/0',
    '0.0.0.0/8',
    '8.0.0.0/5',
    '168.63.129.16/32',
    '::/0',
    '::1/128',
    'fc00::/7',
    'fe80::/10',
    '::ffff:0:0/96',
    '64:ff9b::/96',
    '2002::/16',
    '2001:db8::/32',
    '2001:db8:1::/48',
    '::ffff:10.0.0.0/104',
    'ff00::/8',
    '2000::/2',
  ].map((given): [string, string] => [given, given === '2000::/2' ? 'host_bits_set' : 'not_public']),
  ['8.8.8.8/8', 'host_bits_set'],
  ['8.8.8.8/31', '' /* 8 is even */],
  ['8.8.8.9/31', 'host_bits_set'],
  ['2606:4700::1/32', 'host_bits_set'],
  ...[
    '8.8.8.0',
    '8.8.8.0/33',
    '8.8.8.0/-1',
    '8.8.8.0/08',
    '08.8.8.0/24',
    '8.8.8/24',
    '8.8.8.0/24 ',
    '2606:4700::/129',
    'a.com/24',
    '',
    '/',
    '１.1.1.0/24',
  ].map((given): [string, string] => [given, 'invalid_cidr']),
]

for (const [given, reason] of CIDRS) {
  test(`the network ${JSON.stringify(given)} is ${reason === '' ? 'taken' : `refused as ${reason}`}`, () => {
    const found = normalCidr(given)
    assert.equal('reason' in found ? found.reason : '', reason)
    const issues = policyIssues({ mode: 'allowlist', cidrs: ['1.1.1.0/24', given] })
    assert.deepEqual(
      issues.map((issue) => [issue.path, issue.reason]),
      reason === '' ? [] : [['cidrs.1', reason]],
    )
  })
}

test('a network has one spelling', () => {
  for (const [given, cidr] of [
    ['8.8.8.0/24', '8.8.8.0/24'],
    ['2606:4700:0000::/32', '2606:4700::/32'],
    ['2A00:1450:0:0:0:0:0:0/29', '2a00:1450::/29'],
    ['2606:4700:0:0:1:0:0:0/80', '2606:4700:0:0:1::/80'],
  ] as const) {
    assert.deepEqual(normalCidr(given), { cidr })
  }
})

const LONG = Array.from({ length: 4 }, () => 'a'.repeat(62)).join('.')
const HOSTS: [given: string, reason: string][] = [
  ['169.254.169.254', 'ip_literal'],
  ['2852039166', 'ip_literal'],
  ['0xa9fea9fe', 'ip_literal'],
  ['0xA9.0xFE.0xA9.0xFE', 'ip_literal'],
  ['0251.0376.0251.0376', 'ip_literal'],
  ['169.16689662', 'ip_literal'],
  ['169.254.169.254.', 'ip_literal'],
  ['[::ffff:a9fe:a9fe]', 'ip_literal'],
  ['::1', 'ip_literal'],
  ['fe80::1', 'ip_literal'],
  ['１６９.254.169.254', 'ip_literal'],
  ['①.1.1.1', 'ip_literal'],
  ['*.1.1.1.1', 'ip_literal'],
  ['localhost', 'local_name'],
  ['localhost.', 'local_name'],
  ['LOCALHOST', 'local_name'],
  ['foo.localhost', 'local_name'],
  ['*.localhost', 'local_name'],
  ['ｌocalhost', 'local_name'],
  ['localhost.localdomain', 'local_name'],
  ['printer.local', 'local_name'],
  ['metadata.google.internal', 'local_name'],
  ['nas.home.arpa', 'local_name'],
  ['a..b', 'invalid_host'],
  ['.a.com', 'invalid_host'],
  ['a.com..', 'invalid_host'],
  ['*', 'invalid_wildcard'],
  ['*.', 'invalid_host'],
  ['*.com', 'invalid_wildcard'],
  ['*.*.com', 'invalid_wildcard'],
  ['a.*.com', 'invalid_wildcard'],
  ['a*.example.com', 'invalid_wildcard'],
  ['-a.com', 'invalid_host'],
  ['a-.com', 'invalid_host'],
  ['xn--a', 'invalid_host'],
  ['xn--a.com', 'invalid_host'],
  ['xn--zz--a.com', 'invalid_host'],
  ['a.123', 'invalid_host'],
  ['a.0x1f', 'invalid_host'],
  [`${LONG}.a`, ''],
  [`${LONG}.aa`, 'invalid_host'],
  ['a'.repeat(254), 'invalid_host'],
  [`${'a'.repeat(64)}.com`, 'invalid_host'],
  ['a\u202eb.com', 'invalid_host'],
  ['a\u0000b.com', 'invalid_host'],
  ['a\tb.com', 'invalid_host'],
  ['a\ud800.com', 'invalid_host'],
  ['a b.com', 'invalid_host'],
  ['a%2eb.com', 'invalid_host'],
  ['a/b.com', 'invalid_host'],
  ['user@a.com', 'invalid_host'],
  ['a.com:443', 'invalid_host'],
  ['https://a.com', 'invalid_host'],
  ['a_b.com', 'invalid_host'],
  ['example', 'invalid_host'],
  ['', 'invalid_host'],
]

for (const [given, reason] of HOSTS) {
  const name = given.length > 60 ? `of ${given.length} characters` : JSON.stringify(given)
  test(`the host ${name} is ${reason === '' ? 'taken' : `refused as ${reason}`}`, () => {
    const found = normalHost(given)
    assert.equal('reason' in found ? found.reason : '', reason)
    const issues = policyIssues({ mode: 'allowlist', rules: [{ host: 'ok.example' }, { host: given }] })
    assert.deepEqual(
      issues.map((issue) => [issue.path, issue.reason]),
      reason === '' ? [] : [['rules.1.host', reason]],
    )
  })
}

test('a host has one spelling', () => {
  for (const [given, host] of [
    ['API.Example.COM', 'api.example.com'],
    ['example.com.', 'example.com'],
    ['Bücher.example', 'xn--bcher-kva.example'],
    ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
    ['*.Bücher.example', '*.xn--bcher-kva.example'],
    ['ａ。ｃom', 'a.com'],
    ['r3---sn.example.com', 'r3---sn.example.com'],
  ] as const) {
    assert.deepEqual(normalHost(given), { host })
    assert.deepEqual(normalHost(host), { host }, 'what is normal stays as it is')
  }
})

test('a wildcard covers exactly one label, and no name with the same ending', () => {
  const covers = (name: string) => hostCovers('*.example.com', name)
  assert.deepEqual(
    ['a.example.com', 'a.b.example.com', 'example.com', 'evilexample.com', 'a.evilexample.com', '*.a.example.com'].map(covers),
    [true, false, false, false, false, false],
  )
  assert.deepEqual(normalHost('a.example.com.'), { host: 'a.example.com' })
})

test('an empty allowlist is a valid policy', () => {
  assert.deepEqual(policyIssues({ mode: 'allowlist', rules: [], cidrs: [] }), [])
  assert.deepEqual(normalPolicy({ mode: 'allowlist' }), { mode: 'allowlist', rules: [], cidrs: [] })
})

test("absent fields get the contract's defaults, and repeats are removed", () => {
  const rules = [
    { host: 'A.example' },
    { host: 'b.example', ports: [80, 443, 80], protocols: ['tcp' as const] },
    { host: 'a.example', ports: [443] },
    { host: 'B.example', ports: [443, 80] },
  ]
  assert.deepEqual(normalPolicy({ mode: 'allowlist', rules, cidrs: ['8.8.8.0/24', '8.8.8.0/24'] }), {
    mode: 'allowlist',
    rules: [
      { host: 'a.example', ports: [443], protocols: ['tcp'] },
      { host: 'b.example', ports: [443, 80], protocols: ['tcp'] },
    ],
    cidrs: ['8.8.8.0/24'],
  })
})

test('all problems of a policy are reported at once, with path, reason and message', () => {
  const body = {
    mode: 'blocklist',
    rule: [],
    rules: [
      { host: 'localhost', ports: [0, 443, 65536, 1.5, '80'], protocols: ['udp'] },
      { host: 7, ports: [], port: 1 },
      { ports: 443, protocols: [] },
      null,
      { host: 'a.example', ports: [1, 65535], protocols: ['tcp', 'tcp'] },
    ],
    cidrs: ['10.0.0.0/8', 8],
  }
  const issues = policyIssues(body)
  assert.deepEqual(
    issues.map(({ path, reason }) => `${path} ${reason}`),
    [
      'rule unknown_property',
      'mode invalid_mode',
      'rules.0.host local_name',
      'rules.0.ports.0 invalid_port',
      'rules.0.ports.2 invalid_port',
      'rules.0.ports.3 invalid_port',
      'rules.0.ports.4 invalid_port',
      'rules.0.protocols.0 invalid_protocol',
      'rules.1.port unknown_property',
      'rules.1.host invalid_type',
      'rules.1.ports too_few',
      'rules.2.host required',
      'rules.2.ports invalid_type',
      'rules.2.protocols invalid_type',
      'rules.3 invalid_type',
      'rules.4.protocols too_many',
      'cidrs.0 not_public',
      'cidrs.1 invalid_type',
    ],
  )
  assert.ok(issues.every(({ message }) => message.length > 5))
})

test('lists are accepted up to their limit and refused above it', () => {
  const rules = (count: number) => Array.from({ length: count }, (_, at) => ({ host: `h${at}.example` }))
  const cidrs = (count: number) => Array.from({ length: count }, (_, at) => `8.8.${at}.0/24`)
  const ports = (count: number) => [{ host: 'a.example', ports: Array.from({ length: count }, (_, at) => at + 1) }]
  const told = (body: object) => policyIssues({ mode: 'allowlist', ...body }).map(({ path, reason }) => `${path} ${reason}`)
  assert.deepEqual([told({ rules: rules(256) }), told({ rules: rules(257) })], [[], ['rules too_many']])
  assert.deepEqual([told({ cidrs: cidrs(64) }), told({ cidrs: cidrs(65) })], [[], ['cidrs too_many']])
  assert.deepEqual([told({ rules: ports(64) }), told({ rules: ports(65) })], [[], ['rules.0.ports too_many']])
})

test('rules and networks are refused in every mode but allowlist', () => {
  for (const mode of ['allow_all', 'deny_all']) {
    const issues = policyIssues({ mode, rules: [{ host: 'a.example' }], cidrs: ['8.8.8.0/24'] })
    assert.deepEqual(
      issues.map(({ path, reason }) => `${path} ${reason}`),
      ['rules not_allowed_for_mode', 'cidrs not_allowed_for_mode'],
    )
    assert.deepEqual(policyIssues({ mode, rules: [], cidrs: [] }), [])
  }
  for (const body of [null, [], 'allow_all', {}]) assert.notDeepEqual(policyIssues(body), [])
})
