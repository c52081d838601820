import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { after, test } from 'node:test'
import { ofFirewalls } from './doctor-checks.ts'
import type { FirewallFound } from '../../contract/internal/host-inventory.ts'
import type { DoctorPaths } from './doctor-facts.ts'
import { firewall } from './firewall.ts'

const folder = mkdtempSync('/tmp/berth-firewall-test-')
after(() => rmSync(folder, { recursive: true }))

const OPEN: FirewallFound = { name: 'firewalld', state: 'open', recipe: ['firewall-cmd --zone=trusted --change-interface=b7e57h'] }
const CLOSED: FirewallFound = {
  name: 'iptables-legacy: chain FORWARD',
  state: 'closed',
  why: 'no program',
  recipe: ['iptables -I FORWARD'],
}
const MANUAL: FirewallFound = {
  name: 'nftables: inet filter, chain forward',
  state: 'manual',
  recipe: ['nft insert rule one', 'nft insert rule two'],
}

/** undefined: hostd does not run. */
async function printed(found: FirewallFound[] | undefined): Promise<{ code: number; lines: string[]; notes: string[] }> {
  const hostd_socket = path.join(folder, 'hostd.sock')
  const server = http.createServer((request, response) => response.end(request.url === '/firewalls' ? JSON.stringify({ found }) : '{}'))
  if (found !== undefined) await new Promise<void>((resolve) => server.listen(hostd_socket, resolve))
  const [lines, notes]: string[][] = [[], []]
  const output = { line: (text: string) => void lines?.push(text), note: (text: string) => void notes?.push(text) }
  const code = await firewall({ hostd_socket } as DoctorPaths, output)
  if (found !== undefined) await new Promise((resolve) => server.close(resolve))
  return { code, lines: lines ?? [], notes: notes ?? [] }
}

test('the recipe of every firewall is printed so that a shell can run it', async () => {
  assert.deepEqual(await printed([OPEN, CLOSED, MANUAL]), {
    code: 0,
    lines: [
      '# firewalld: Berth has put its rules in. By hand, with firewall set to manual, this does the same:',
      'firewall-cmd --zone=trusted --change-interface=b7e57h',
      '# iptables-legacy: chain FORWARD: Berth could not put its rules in: no program. By hand:',
      'iptables -I FORWARD',
      '# nftables: inet filter, chain forward: firewall is set to manual. By hand:',
      'nft insert rule one',
      'nft insert rule two',
    ],
    notes: [],
  })
  assert.deepEqual((await printed([])).lines, ['# No firewall of this computer has to be changed for machines.'])
})

test('without hostd the command prints no firewalls and fails', async () => {
  const { code, lines, notes } = await printed(undefined)
  assert.deepEqual([code, lines], [1, []])
  assert.match(notes.join(), /npm start/)
})

test('the doctor names a firewall that could not be changed, and accepts one left to the operator', () => {
  const judged = (...firewalls: FirewallFound[]) => ofFirewalls(firewalls).map(({ check, level, text }) => `${check} ${level}: ${text}`)
  const recipe = 'npm run admin -- firewall prints the commands that let them through'
  assert.deepEqual(judged(), ['firewall ok: No other firewall drops what is forwarded'])
  assert.deepEqual(judged(OPEN), ["firewall ok: Machines' packets pass firewalld"])
  assert.deepEqual(judged(MANUAL), [
    `firewall ok: Yours to let machines' packets through (setting firewall): nftables: inet filter, chain forward; ${recipe}`,
  ])
  assert.deepEqual(judged(OPEN, CLOSED), [
    `firewall wrong: Machines' packets may be dropped, since Berth could not change iptables-legacy: chain FORWARD (no program); ${recipe}`,
  ])
})
