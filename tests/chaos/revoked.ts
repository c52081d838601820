import { call } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import type { History } from './history.ts'
import type { Believed } from './model.ts'

const LOOK_MS = 1000
/** The gateway may serve a revoked token this long; the application API refuses at once. */
const TOKEN_MS = 30_000

export interface RevokedKey {
  api_key: string
  tool_token: string
  workspace_id: string
  endpoint: string
  revoked_ms: number
}

export async function revokeOne(service: Service, { id, endpoint }: Believed): Promise<RevokedKey> {
  const of = ['--organization', 'default', '--project', 'default', '--tools', 'files', '--name', 'revoked', '--quiet']
  const api_key = (await service.admin('key', 'create', ...of)).trim()
  const minted = await call<{ token: string }>(`${service.base_url}/v1/workspaces/${id}/tool-tokens`, { token: api_key, json: {} })
  if (minted.status !== 201) throw new Error(`tool-tokens answered ${minted.status}: ${minted.bytes.toString()}`)
  const keys = JSON.parse(await service.admin('key', 'list', '--json')) as { key_id: string; name: string }[]
  await service.admin('key', 'revoke', keys.find(({ name }) => name === 'revoked')?.key_id ?? '')
  return { api_key, tool_token: minted.body.token, workspace_id: id, endpoint, revoked_ms: performance.now() }
}

/** Checks I12: neither key nor token is ever served again, whichever process restarts. */
export async function watchRevoked(service: Service, key: RevokedKey, history: History, stopped: () => boolean): Promise<void> {
  const ask = async (url: string, token: string) =>
    (await call(url, { token, signal: AbortSignal.timeout(10_000) }).catch(() => null))?.status
  while (!stopped()) {
    const listed = await ask(`${service.base_url}/v1/workspaces`, key.api_key)
    judge(history, key, 'key', listed)
    // Earlier, the gateway may still serve the token, and the call would keep the machine awake.
    if (performance.now() > key.revoked_ms + TOKEN_MS)
      judge(
        history,
        key,
        'token',
        await ask(`${key.endpoint}/v1/workspaces/${key.workspace_id}/files/stat?path=/home/user`, key.tool_token),
      )
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}

function judge(history: History, { workspace_id }: RevokedKey, what: 'key' | 'token', status: number | undefined): void {
  if (status === 200) history.violate('I12: what was revoked was served', { what, workspace_id })
  history.count(`revoked_${what}_${status ?? 'cut'}`)
}
