import type { Service } from '../support/service.ts'
import type { Actor } from './open.ts'
import { arm, disarm, type Armed, type Markers } from './arm.ts'
import { createCaller } from './caller.ts'
import { follow } from './follow.ts'
import type { History } from './history.ts'
import type { Mode, Point } from './points.ts'
import { createRandom } from './random.ts'
import { prepare } from './scenario.ts'

export interface CaseContext {
  service: Service
  markers: Markers
  history: History
  stop_ms: number
}

export async function runCase({ service, markers, history, stop_ms }: CaseContext, point: Point, mode: Mode): Promise<string> {
  const found: History = {
    ...history,
    violations: [],
    violate: (what, about) => void found.violations.push(`${what} ${JSON.stringify(about)}`),
  }
  const random = createRandom(1)
  const actorAt = (at: Service): Actor => ({ name: 'case', caller: createCaller(at, found, random), history: found, random })
  try {
    const one = await prepare(service, actorAt(service), point.kind)
    const armed = await arm(service, markers, point, mode)
    const elsewhere = Promise.withResolvers<Actor>()
    const taken_over = new AbortController()
    const tookOver = (base_url: string) => {
      taken_over.abort()
      if (point.owner === 'api') elsewhere.resolve(actorAt({ ...service, base_url }))
    }
    let has_ended = false
    const ended = () => has_ended
    const what_follows = async () => {
      await follow(service, point.owner, mode, { stop_ms, ended, tookOver })
      await service.ready() // the callers wait until the service is ready
    }
    const following = watchFor(armed, ended, what_follows)
    const running = one.run({ ...armed, elsewhere: elsewhere.promise, taken_over: taken_over.signal }).finally(() => (has_ended = true))
    // Waits for both, even on failure: the next case needs an idle service.
    const [ran, followed] = await Promise.allSettled([running, following])
    await service.ready()
    const reached = await armed.fired()
    await disarm(service, markers, point)
    if (ran.status === 'rejected') throw ran.reason
    if (followed.status === 'rejected') throw followed.reason
    await one.verify()
    if (found.violations.length > 0) return `FAIL ${found.violations.join('; ')}`
    return reached ? `ok, ${ran.value}` : 'NOT REACHED'
  } catch (error) {
    await service.ready().catch(() => undefined) // the next case reports a service that is not ready
    await disarm(service, markers, point).catch(() => undefined)
    return `FAIL ${[...found.violations, String(error).replaceAll(/\s+/g, ' ').slice(0, 600)].join('; ')}`
  }
}

/** The operation may end first, if the point comes after its end. */
async function watchFor(armed: Armed, ended: () => boolean, then: () => Promise<void>): Promise<void> {
  for (let after_end = 0; after_end < 400; after_end += ended() ? 1 : 0) {
    if (await armed.fired()) return then()
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}
