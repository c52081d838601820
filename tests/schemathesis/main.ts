// `npm run schemathesis`.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { createClient } from '../support/client.ts'
import { startService } from '../support/service.ts'

const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
]
const EXAMPLES = 40
const INDEX_SECONDS_MAX = 60

interface Run {
  name: string
  url: string
  tag: 'app' | 'cell'
  token: string
  /** Values of these path parameters. Schemathesis invents the others. */
  ids: Record<string, string>
  without?: string[]
}

const command = process.env['BERTH_SCHEMATHESIS']
if (command === undefined) throw new Error('Run it as `npm run schemathesis`')
const service = await startService({ settings: { slots: 1, shells: 1 } })
const folder = mkdtempSync(join(tmpdir(), 'berth-schemathesis-'))
try {
  const failed = (await runsOf()).filter((run) => !succeeds(run)).map(({ name }) => name)
  console.log(failed.length === 0 ? 'Schemathesis finds nothing.' : `Schemathesis found something: ${failed.join(', ')}`)
  process.exitCode = failed.length === 0 ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
}

async function runsOf(): Promise<Run[]> {
  const client = createClient(service.base_url, service.api_key)
  const { body: me } = await client.api<{ api_key: { organization_id: string; project_id: string } }>('/v1/me')
  const kept = await client.open('kept')
  const tools = await client.open('tools')
  const { organization_id, project_id } = me.api_key
  const app = { url: service.base_url, tag: 'app' as const, token: service.api_key }
  // Without an index of packages this route answers 503, as declared; Schemathesis counts every 5xx as a fault.
  const lists = (await isIndexRead(client)) ? [] : ['template-packages.list']
  const own = { organization_id, project_id, workspace_id: kept.id, operation_id: kept.operation_id ?? '' }
  return [
    { name: 'application API with ids that are made up', ...app, ids: {}, without: lists },
    { name: 'application API with its own ids', ...app, ids: own, without: [...lists, 'workspaces.delete', 'workspaces.close'] },
    { name: 'gateway', url: tools.endpoint, tag: 'cell', token: tools.token, ids: { workspace_id: tools.id } },
  ]
}

async function isIndexRead(client: ReturnType<typeof createClient>): Promise<boolean> {
  for (let tries = 0; tries < INDEX_SECONDS_MAX; tries += 1) {
    const { status, body } = await client.api<{ error?: { details?: { reason?: string } } }>('/v1/template-packages?query=a')
    if (status === 200) return true
    if (body.error?.details?.reason !== 'package_index_loading') return false
    await setTimeout(1000)
  }
  return false
}

function succeeds({ name, url, tag, token, ids, without = [] }: Run): boolean {
  console.log(`\n== ${name}`)
  const settings = join(folder, `${tag}.toml`)
  const parameters = Object.entries(ids).map(([id, value]) => `"path.${id}" = "${value}"`)
  writeFileSync(settings, `[parameters]\n${parameters.join('\n')}\n`)
  const { status } = spawnSync(
    command ?? '',
    [
      ['--config-file', settings, 'run', `${service.base_url}/v1/openapi.json`, '--url', url, '--include-tag', tag],
      without.flatMap((id) => ['--exclude-operation-id', id]),
      ['--header', `Authorization: Bearer ${token}`, '--checks', CHECKS.join(','), '--max-examples', String(EXAMPLES)],
      ['--suppress-health-check', 'all', '--request-timeout', '30', '--no-color', '--continue-on-failure'],
      ['--generation-database', 'none', '--warnings', 'off', ...process.argv.slice(2)],
    ].flat(),
    { cwd: folder, stdio: 'inherit' },
  )
  return status === 0
}
