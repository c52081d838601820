import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { patience } from './patience.ts'

/** The internet never routes this range: packets reach the test's namespace or nothing. */
export const INTERNET_ADDRESS = '203.0.113.10'
export const OTHER_ADDRESS = '203.0.113.11'
/** In the server's certificate, as are its addresses. */
export const INTERNET_HOST = 'api.example.com'
export const OTHER_HOST = 'other.example.com'

export interface Visit {
  url: string
  host: string
  authorization: string | null
}

export interface Internet {
  uplink: string
  /** PEM of the certificate's authority. */
  ca: Buffer
  ca_file: string
  repositories: string
  visits: Visit[]
  visited(fits: (visit: Visit) => boolean): Promise<Visit>
  close(): Promise<void>
}

export async function openInternet(): Promise<Internet> {
  const uplink = `bt${process.pid}`
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-internet-'))
  const ip = (...args: string[]) => execFileSync('ip', args, { timeout: patience(60_000) })
  const remove = () => {
    execFileSync('ip', ['netns', 'del', uplink], { stdio: 'ignore' })
    rmSync(folder, { recursive: true, force: true })
  }
  ip('netns', 'add', uplink)
  process.once('exit', remove)
  ip('-n', uplink, 'link', 'set', 'lo', 'up')
  for (const address of [INTERNET_ADDRESS, OTHER_ADDRESS]) ip('-n', uplink, 'address', 'add', `${address}/32`, 'dev', 'lo')
  makeCertificate(folder)
  const server = spawn(
    'ip',
    ['netns', 'exec', uplink, process.execPath, path.join(import.meta.dirname, 'internet-server.ts'), folder],
    { stdio: ['pipe', 'pipe', 'inherit'] }, // the server ends with its stdin
  )
  const seen = follow(server)
  await seen.ready
  return {
    uplink,
    ca: readFileSync(path.join(folder, 'cert.pem')),
    ca_file: path.join(folder, 'cert.pem'),
    repositories: folder,
    visits: seen.visits,
    visited: seen.visited,
    async close() {
      server.stdin.end()
      await once(server, 'exit')
      process.off('exit', remove)
      remove()
    },
  }
}

function makeCertificate(folder: string): void {
  const names = `subjectAltName=IP:${INTERNET_ADDRESS},IP:${OTHER_ADDRESS},DNS:${INTERNET_HOST},DNS:${OTHER_HOST}`
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', path.join(folder, 'key.pem')]
  const request = ['req', '-x509', '-days', '2', '-subj', '/CN=internet of a test', '-addext', names]
  execFileSync('openssl', [...request, ...key, '-out', path.join(folder, 'cert.pem')], { stdio: 'ignore', timeout: patience(60_000) })
}

/** First line: the server listens. Each later line is a visit. */
function follow(server: ChildProcess & { stdout: NonNullable<ChildProcess['stdout']> }) {
  const visits: Visit[] = []
  const waiting = new Set<() => void>()
  let started: () => void
  const ready = new Promise<void>((resolve, reject) => {
    started = resolve
    server.once('exit', (code) => reject(new Error(`The server of the test's internet ended with ${code}`)))
  })
  createInterface({ input: server.stdout }).on('line', (line) => {
    if (line === 'ready') return started()
    visits.push(JSON.parse(line) as Visit)
    for (const wake of waiting) wake()
  })
  const visited = (fits: (visit: Visit) => boolean) =>
    new Promise<Visit>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`Nobody came: ${JSON.stringify(visits)}`)), 60_000)
      const look = () => {
        const found = visits.find(fits)
        if (found === undefined) return
        waiting.delete(look)
        clearTimeout(late)
        resolve(found)
      }
      waiting.add(look)
      look()
    })
  return { visits, ready, visited }
}
