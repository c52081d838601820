import { CLIENT_PACKAGES, RELEASE_NOTES_URL } from '../../../../contract/client-packages.ts'
import type { clientVersions } from '../../../../contract/routes/app/principals.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { ClientVersions } from '../../../../contract/schemas/client-versions.ts'
import type { Call, Reply } from '../../../http/call.ts'

/** See the specification (App, "Versioning" 2). */
export async function getClientVersions(_call: Call<typeof clientVersions>): Promise<Reply> {
  const body: ClientVersions = { clients: CLIENT_PACKAGES.map(told) }
  return { status: 200, body, headers: { 'cache-control': `public, max-age=${LIMITS.client_versions.cache_seconds}` } }
}

type Told = ClientVersions['clients'][number]

function told({ version, is_distributed, ...rest }: (typeof CLIENT_PACKAGES)[number]): Told {
  return { ...rest, latest: latestOf(version, is_distributed), release_notes_url: RELEASE_NOTES_URL }
}

function latestOf(version: string, is_distributed: boolean): string | null {
  return is_distributed ? version : null
}
