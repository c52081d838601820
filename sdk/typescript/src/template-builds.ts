import { type App, PREFER_WAIT } from './app.ts'
import { DeadlineError } from './errors.ts'
import type { Of } from './nouns.ts'
import { pause, waitBefore } from './retry.ts'
import type * as wire from './schemas.ts'
import { type CallOptions, deadlineFor, readJson } from './transport.ts'

/** A build may take three hours. */
const BUILD_MS = 4 * 60 * 60_000
const LOG_MS = 500

/** Builds of template versions from recipes and Dockerfiles. */
export function buildsOf(app: App) {
  return {
    /** Starts a build from a recipe or a Dockerfile. Creates the template where it does not exist. */
    async build(slug: string, request: wire.TemplateBuildRequest, options?: Of): Promise<wire.TemplateBuild> {
      const json = { project_id: options?.project ?? (await app.projectId()), ...request }
      const begins = { method: 'POST', path: `/v1/templates/${encodeURIComponent(slug)}/builds`, json, key: true }
      return (await app.call<wire.TemplateBuildStarted>(begins, options)).build
    },
    getBuild: (build_id: string, options?: CallOptions): Promise<wire.TemplateBuild> =>
      app.call({ method: 'GET', path: pathOf(build_id) }, options),
    /** Yields the log of a build until it is complete. */
    buildLog: (build_id: string, options?: CallOptions & { offset?: number }): AsyncGenerator<string, void> =>
      buildLog(app, build_id, options),
    /** Returns when the build has ended, with any result. */
    waitForBuild: (build_id: string, options?: CallOptions): Promise<wire.TemplateBuild> => waitForBuild(app, build_id, options),
    /** Cancels a build, which then makes no version. */
    cancelBuild: (build_id: string, options?: CallOptions): Promise<wire.TemplateBuild> =>
      app.call({ method: 'POST', path: pathOf(build_id, '/cancel'), json: {}, key: true }, options),
  }
}

async function* buildLog(
  app: App,
  build_id: string,
  { offset = 0, ...options }: CallOptions & { offset?: number } = {},
): AsyncGenerator<string, void> {
  const deadline = deadlineFor(options, BUILD_MS)
  try {
    for (let at = offset; ;) {
      const request = { method: 'GET', path: pathOf(build_id, '/log'), query: { offset: at } }
      const { text, next_offset, complete } = await app.send(request, deadline, readJson<wire.TemplateBuildLog>)
      if (text !== '') yield text
      if (complete) return
      if (next_offset === at) await pause(LOG_MS, deadline)
      at = next_offset
    }
  } catch (error) {
    throw withBuildId(error, build_id)
  }
}

async function waitForBuild(app: App, build_id: string, options?: CallOptions): Promise<wire.TemplateBuild> {
  const deadline = deadlineFor(options, BUILD_MS)
  try {
    for (let attempt = 0; ; attempt += 1) {
      const request = { method: 'GET', path: pathOf(build_id), headers: PREFER_WAIT }
      const seen = await app.send(request, deadline, readJson<wire.TemplateBuild>)
      if (seen.completed_at !== null) return seen
      await pause(waitBefore(attempt, null), deadline)
    }
  } catch (error) {
    throw withBuildId(error, build_id)
  }
}

function pathOf(build_id: string, below = ''): string {
  return `/v1/template-builds/${build_id}${below}`
}

/** Adds the build's id to a deadline error, since the build continues. */
function withBuildId(error: unknown, build_id: string): unknown {
  if (!(error instanceof DeadlineError)) return error
  const message = `The time for this call is over; build ${build_id} goes on: templates.waitForBuild waits for it`
  return new DeadlineError(message, { build_id, cause: error })
}
