import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aptOptionsFrom, sourcesFrom } from './debian-mirror.mjs'

const KEY = '[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'

test('the mirrors of the host serve the pinned suite on any host release', () => {
  const targets = [
    'Elsewhere|nodistro|https://other.example/node/',
    'Debian|trixie|http://mirror.example/debian/',
    'Debian|trixie-updates|http://mirror.example/debian/',
    'Debian|trixie-security|http://mirror.example/security/',
  ].join('\n')
  assert.deepEqual(sourcesFrom(targets, 'bookworm'), [
    `deb ${KEY} http://mirror.example/debian/ bookworm main`,
    `deb ${KEY} http://mirror.example/debian/ bookworm-updates main`,
    `deb ${KEY} http://mirror.example/security/ bookworm-security main`,
  ])
})

test('a host that is not a Debian, or whose lists are missing, offers no mirror', () => {
  assert.deepEqual(sourcesFrom('Ubuntu|noble|http://mirror.example/ubuntu/\n', 'bookworm'), [])
  assert.deepEqual(sourcesFrom('$(ORIGIN)|$(RELEASE)|http://mirror.example/debian/\n', 'bookworm'), [])
  assert.deepEqual(sourcesFrom('', 'bookworm'), [])
})

test('a mirror with a password in its address is not used, since the image would carry it', () => {
  assert.deepEqual(sourcesFrom('Debian|bookworm|https://me:secret@mirror.example/debian/', 'bookworm'), [])
})

test('proxies and validity checks of the host are passed on, and nothing else', () => {
  const dump = [
    'Acquire "";',
    'Acquire::http::Proxy "http://proxy.example:3128/";',
    'Acquire::https::Proxy "";',
    'Acquire::https::CaInfo "/etc/ssl/own.pem";',
    'Acquire::Check-Valid-Until "false";',
    'Acquire::Languages:: "none";',
  ].join('\n')
  assert.deepEqual(aptOptionsFrom(dump), ['Acquire::http::Proxy "http://proxy.example:3128/";', 'Acquire::Check-Valid-Until "false";'])
})
