import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { run } from './cached-build.mjs'

export const ACCOUNTS = {
  postgres: 'berth-pg',
  api: 'berth-api',
  cell: 'berth-cell',
  resolver: 'berth-dns',
  ports: 'berth-ports',
  secret_proxy: 'berth-secrets',
}

const ATTEMPTS_MAX = 20
const PAUSE_MS = 250

export async function ensureAccounts({ log }) {
  const entries = []
  for (const [role, name] of Object.entries(ACCOUNTS)) {
    if (!accountOf(name)) await create(name, log)
    entries.push([role, accountOf(name)])
  }
  return Object.fromEntries(entries)
}

export function accountOf(name) {
  const entry = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .find(([each]) => each === name)
  return entry && { uid: Number(entry[2]), gid: Number(entry[3]) }
}

async function create(name, log) {
  const home = ['--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin']
  for (let attempt = 1; ; attempt += 1) {
    try {
      await run('useradd', ['--system', '--user-group', ...home, name])
      break
    } catch (error) {
      // Another start has created the user, or has locked /etc/passwd: useradd does not wait for the lock, so this tries again.
      if (accountOf(name)) return
      if (attempt === ATTEMPTS_MAX) throw error
      await setTimeout(PAUSE_MS)
    }
  }
  log(`user ${name} is made`)
}
