// Entry point of the processes, started by the supervisor: `main.ts api|cell|bootstrap --config FILE`.
import { flushCompileCache } from 'node:module'
import { parseArgs } from 'node:util'
import { readApiConfig, readCellConfig, readSetupConfig } from './config.ts'
import { armFailpoints, listFailpoints } from './lib/failpoints.ts'
import { surviveFullOutput } from './lib/log.ts'

interface Service {
  close(): Promise<void>
}

const CLOSE_MS = 9000 // a little less than the supervisor waits

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    config: { type: 'string' },
    'enable-failpoints': { type: 'boolean', default: false },
    'list-failpoints': { type: 'boolean', default: false },
  },
})

if (values['list-failpoints']) process.stdout.write(listFailpoints())
else await run(positionals[0], values.config)

async function run(command: string | undefined, config: string | undefined): Promise<void> {
  if (config === undefined) throw new Error('usage: main.ts api|cell|bootstrap --config FILE')
  switch (command) {
    case 'api': {
      const { startApi } = await import('./api/app.ts')
      return serve(() => startApi(readApiConfig(config, failpoints())))
    }
    case 'cell': {
      const { startCell } = await import('./cell/app.ts')
      return serve(() => startCell(readCellConfig(config, failpoints())))
    }
    case 'bootstrap': {
      const { bootstrap } = await import('./admin/bootstrap.ts')
      return bootstrap(readSetupConfig(config))
    }
    default:
      throw new Error(`${command ?? 'nothing'} is not a command of main.ts`)
  }
}

/** A process that was not started by a test refuses to run with failpoints. */
function failpoints(): string {
  const spec = process.env['BERTH_FAILPOINT'] ?? ''
  const test_switch = values['enable-failpoints']
  armFailpoints(spec, { test_switch })
  return spec
}

async function serve(start: () => Promise<Service>): Promise<void> {
  surviveFullOutput()
  const told = new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
  })
  const service = await start()
  flushCompileCache() // Node writes its compile cache only at a normal exit, so a killed process would lose it
  await told
  // Connections left by then have no reader; their streams can be resumed.
  setTimeout(() => process.exit(0), CLOSE_MS).unref()
  await service.close()
  process.exit(0)
}
