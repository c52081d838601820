import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { FAILPOINTS } from '../../service/lib/failpoints.ts'
import { startTimeOf } from '../support/processes.ts'
import type { ChildName, Service } from '../support/service.ts'
import type { Mode, Owner, Point } from './points.ts'

const ACTIONS: Record<Mode, string> = { kill: 'kill9', kill_all: 'kill9', stop: 'stop', throw: 'throw' }

/** The marker files of api's and cell's points: a point fires when its file is missing, and makes it. */
export interface Markers {
  /** For startService. */
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
  /** Whether the point has fired; for hostd's `throw` nobody can tell. */
  fired(): boolean | null
}

export async function arm(service: Service, markers: Markers, point: Point, mode: Mode): Promise<Armed> {
  if (point.owner !== 'hostd') {
    rmSync(markers.file(point.name))
    return { fired: () => existsSync(markers.file(point.name)) }
  }
  await putFailpoints(service, { [point.name]: ACTIONS[mode] })
  const pid = pidOf(service, 'hostd')
  const began = startTimeOf(pid)
  let stopped = false
  return {
    fired() {
      if (mode === 'throw') return null
      if (mode === 'stop') return (stopped ||= isStopped(pid))
      return startTimeOf(pid) !== began
    },
  }
}

/** So that a point that was not reached does not fire in the next case. */
export async function disarm(service: Service, markers: Markers, point: Point): Promise<void> {
  if (point.owner === 'hostd') await putFailpoints(service, {})
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

/** What follows a point that fired: the others are killed too, or the stopped one goes on. */
export async function follow(service: Service, owner: Owner, mode: Mode, stop_ms: number): Promise<void> {
  if (mode === 'stop') {
    const pid = pidOf(service, owner)
    await new Promise((resolve) => setTimeout(resolve, stop_ms))
    process.kill(pid, 'SIGCONT')
  }
  if (mode === 'kill_all')
    for (const child of ['supervisor', 'cell', 'api', 'hostd', 'postgres'] as const) await service.kill9(child).catch(() => undefined) // the owner is dead already
}

function putFailpoints(service: Service, points: Record<string, string>): Promise<void> {
  const socketPath = path.join(service.run_dir, 'hostd', 'socket')
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath, path: '/failpoints', method: 'PUT', agent: false, timeout: 5000 }, (response) => {
      response.resume()
      response.on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`hostd answered ${response.statusCode}`))))
    })
    request.on('error', reject)
    request.end(JSON.stringify(points))
  })
}
