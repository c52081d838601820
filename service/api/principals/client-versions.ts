import type { clientVersions } from '../../../contract/routes/app/principals.ts'
import { LIMITS } from '../../../contract/limits.ts'
import type { ClientVersions } from '../../../contract/schemas/client-versions.ts'
import type { Call, Reply } from '../../http/call.ts'
import type { ApiDeps } from '../deps.ts'

/** App, "Versioning" 2. No package is distributed yet, so none has a latest version. */
const PACKAGES = [
  { package: '@berth/sdk', ecosystem: 'npm', latest: null, minimum_supported: '0.1.0', upgrade_command: 'npm install @berth/sdk@latest' },
  {
    package: '@berth/cli',
    ecosystem: 'npm',
    latest: null,
    minimum_supported: '0.1.0',
    upgrade_command: 'npm install --global @berth/cli@latest',
  },
] as const

export async function getClientVersions(_call: Call<typeof clientVersions>, deps: ApiDeps): Promise<Reply> {
  const release_notes_url = `${deps.base_url}/v1/openapi.json`
  const body: ClientVersions = { clients: PACKAGES.map((client) => ({ ...client, release_notes_url })) }
  return { status: 200, body, headers: { 'cache-control': `public, max-age=${LIMITS.client_versions.cache_seconds}` } }
}
