import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { FAILPOINTS } from '../../service/lib/failpoints.ts'
import { startTimeOf } from '../support/processes.ts'
import type { ChildName, Service } from '../support/service.ts'
import type { Mode, Point } from './points.ts'
import { patience } from '../support/patience.ts'

const ACTIONS: Record<Mode, string> = { kill: 'kill9', kill_all: 'kill9', stop: 'stop', throw: 'throw' }

/** Points of api and cell. A point fires if its file is missing, and then creates it. */
export interface Markers {
  spec(mode: Mode): string
  file(name: string): string
  close(): void
}

export function openMarkers(): Markers {
  const dir = mkdtempSync('/tmp/berth-points-')
  chmodSync(dir, 0o777)
  const names = Object.keys(FAILPOINTS)
  const file = (name: string) => path.join(dir, name)
  for (const name of names) writeFileSync(file(name), '')
  return {
    file,
    spec: (mode) => names.map((name) => `${name}:${ACTIONS[mode]}@${file(name)}`).join(','),
    close: () => rmSync(dir, { recursive: true }),
  }
}

export interface Armed {
  fired(): Promise<boolean>
}

export async function arm(service: Service, markers: Markers, point: Point, mode: Mode): Promise<Armed> {
  if (point.owner !== 'hostd') {
    rmSync(markers.file(point.name))
    return { fired: () => Promise.resolve(existsSync(markers.file(point.name))) }
  }
  await askHostd(service, 'PUT', { [point.name]: ACTIONS[mode] })
  const pid = pidOf(service, 'hostd')
  const began = startTimeOf(pid)
  let fired = false
  return {
    async fired() {
      if (fired) return true
      if (mode === 'throw') fired = !(point.name in (await askHostd(service, 'GET')))
      else fired = mode === 'stop' ? isStopped(pid) : startTimeOf(pid) !== began
      return fired
    },
  }
}

/** A point that was not reached must not fire in the next case. */
export async function disarm(service: Service, markers: Markers, point: Point): Promise<void> {
  if (point.owner === 'hostd') await askHostd(service, 'PUT', {})
  else writeFileSync(markers.file(point.name), '')
}

export function pidOf(service: Service, child: Exclude<ChildName, 'supervisor'>): number {
  return (JSON.parse(readFileSync(path.join(service.run_dir, 'children', `${child}.json`), 'utf8')) as { pid: number }).pid
}

export function isStopped(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T')
  } catch {
    return false
  }
}

/** PUT sets hostd's failpoints. GET returns those that have not fired yet. */
function askHostd(service: Service, method: 'PUT' | 'GET', points?: Record<string, string>): Promise<Record<string, string>> {
  const socketPath = path.join(service.run_dir, 'hostd', 'socket')
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath, path: '/failpoints', method, agent: false, timeout: patience(30_000) }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => {
        if (response.statusCode === 200) resolve((JSON.parse(text) ?? {}) as Record<string, string>)
        else reject(new Error(`hostd answered ${response.statusCode}`))
      })
    })
    request.on('timeout', () => request.destroy(new Error('hostd does not answer')))
    request.on('error', reject)
    request.end(points === undefined ? undefined : JSON.stringify(points))
  })
}
