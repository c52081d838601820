import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unitName, unitText } from './systemd.mjs'

const text = (more) =>
  unitText({
    node: '/opt/node',
    clone: '/srv/berth',
    data_dir: '/var/lib/berth',
    path: '/usr/bin:/go/bin',
    identifier: 'berth',
    flags: [],
    ...more,
  })
const lineOf = (unit, name) => unit.split('\n').find((line) => line.startsWith(`${name}=`))

test('the usual data directory has the usual unit name, and every other one its own', () => {
  assert.equal(unitName({ data_dir: '/var/lib/berth', instance: 'abcd' }), 'berth.service')
  assert.equal(unitName({ data_dir: '/srv/two', instance: 'abcd' }), 'berth-abcd.service')
})

test('the unit runs the command of npm start with the given settings', () => {
  assert.equal(
    lineOf(text({ flags: ['--api-listen', '0.0.0.0:80'] }), 'ExecStart'),
    'ExecStart=/opt/node /srv/berth/tools/start.mjs --show-logs yes --api-listen 0.0.0.0:80',
  )
})

test('systemd reads every word exactly as it was given', () => {
  const unit = text({ clone: '/srv/my berth', flags: ['--base-url', 'http://a/%20$x"\\'] })
  assert.equal(
    lineOf(unit, 'ExecStart'),
    'ExecStart=/opt/node "/srv/my berth/tools/start.mjs" --show-logs yes --base-url "http://a/%%20$$x\\"\\\\"',
  )
})

test('programs are found through the PATH at the time of installation', () => {
  assert.equal(lineOf(text(), 'Environment'), 'Environment=HOME=/root PATH=/usr/bin:/go/bin')
})

test('a stop leaves the machines, and a wrong setting does not cause a restart', () => {
  assert.equal(lineOf(text(), 'KillMode'), 'KillMode=process')
  assert.equal(lineOf(text(), 'RestartPreventExitStatus'), 'RestartPreventExitStatus=2')
})
