import type { CredentialKind } from '../../../../contract/internal/ports.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { portCallbacksCreate, portCallbacksDelete, portLinksCreate, portTokensCreate } from '../../../../contract/routes/app/ports.ts'
import type { PortCallback, PortLink, PortToken } from '../../../../contract/schemas/ports.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { cookieOf, digestOf, newCredential } from '../../../core/workspaces/ports/credentials.ts'
import { callbackUrl, linkUrl, portUrl } from '../../../core/workspaces/ports/url.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { takeOfDay } from '../../calls/daily/take.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { lockExposed } from './find.ts'
import { tooMany } from './limits.ts'
import { linkPath, secondsOf } from './rules.ts'
import { countCredentials, deleteCallback, insertCredentials, type NewPortCredential } from './store.ts'
import { portSubject } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../deps.ts'

type CreateCall = Call<typeof portTokensCreate> | Call<typeof portLinksCreate> | Call<typeof portCallbacksCreate>

const { tokens_per_port_max, links_per_port_max, token_seconds_default, link_seconds_default } = LIMITS.port

export async function createPortToken(
  call: Call<typeof portTokensCreate>,
  deps: ChangeDeps & Pick<WorkspaceDeps, 'ports_url'>,
): Promise<Reply> {
  const expires_at = after(call, secondsOf(call.body, token_seconds_default))
  const token = newCredential('token')
  await keep(deps, call, { token }, { path: null, expires_at })
  const body: PortToken = { token, token_type: 'Bearer', url: urlOf(deps, call), ...ofPort(call), expires_at: expires_at.toISOString() }
  return { status: 201, body }
}

export async function createPortLink(
  call: Call<typeof portLinksCreate>,
  deps: ChangeDeps & Pick<WorkspaceDeps, 'ports_url'>,
): Promise<Reply> {
  const path = linkPath(call.body.path ?? '/')
  const expires_at = after(call, secondsOf(call.body, link_seconds_default))
  const link = newCredential('link')
  await keep(deps, call, { link, cookie: cookieOf(link) }, { path, expires_at })
  const body: PortLink = { url: linkUrl(urlOf(deps, call), link), path, ...ofPort(call), expires_at: expires_at.toISOString() }
  return { status: 201, body }
}

export async function createPortCallback(
  call: Call<typeof portCallbacksCreate>,
  deps: ChangeDeps & Pick<WorkspaceDeps, 'ports_url'>,
): Promise<Reply> {
  const callback = newCredential('callback')
  await keep(deps, call, { callback }, { path: null, expires_at: null })
  const body: PortCallback = { url: callbackUrl(urlOf(deps, call), callback), ...ofPort(call) }
  return { status: 201, body }
}

export async function deletePortCallback(call: Call<typeof portCallbacksDelete>, deps: ChangeDeps): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const { workspace, port } = await lockExposed(tx, call)
    return (await deleteCallback(tx, port.id)) ? { workspace, port } : null
  }
  await changing(deps, call, work, (revoked) => revoked && portSubject(revoked.workspace, revoked.port))
  return { status: 204 }
}

type Lasting = Pick<NewPortCredential, 'path' | 'expires_at'>

/** Stores only digests. Audit records refer to a credential by its row id. */
async function keep(deps: ChangeDeps, call: CreateCall, made: Partial<Record<CredentialKind, string>>, lasting: Lasting): Promise<void> {
  const kinds = Object.entries(made) as [CredentialKind, string][]
  const rows = kinds.map(([kind, value]) => ({ id: deps.ids.next(), kind, sha256: kept(kind, value), ...lasting, created_at: call.now }))
  const [first] = rows
  const work = async (tx: ChangeTx) => {
    const { workspace, port } = await lockExposed(tx, call)
    if (made.callback !== undefined) await deleteCallback(tx, port.id)
    if (made.token !== undefined) await refuseTooMany(tx, port.id, 'token', call.now)
    if (made.link !== undefined) await refuseTooMany(tx, port.id, 'link', call.now)
    await insertCredentials(
      tx,
      rows.map((row) => ({ ...row, port_id: port.id, path: row.kind === 'link' ? row.path : null })),
    )
    await takeOfDay(tx, 'port_credentials', workspace.organization_id, call.now)
    return { workspace, port }
  }
  const details = { credential_id: first?.id ?? null, expires_at: lasting.expires_at?.toISOString() ?? null }
  await changing(deps, call, work, ({ workspace, port }) => portSubject(workspace, port, details))
}

function kept(kind: CredentialKind, value: string): Buffer {
  const digest = digestOf(kind, value)
  if (digest === null) throw new Error(`a new ${kind} does not look like one`)
  return digest
}

async function refuseTooMany(tx: ChangeTx, port_id: string, kind: 'token' | 'link', now: Date): Promise<void> {
  const limit_value = kind === 'token' ? tokens_per_port_max : links_per_port_max
  const current = await countCredentials(tx, port_id, kind, now)
  if (current >= limit_value) throw tooMany(`${kind}s_per_port`, limit_value, current)
}

function after({ now }: CreateCall, seconds: number): Date {
  return new Date(now.getTime() + seconds * 1000)
}

function urlOf({ ports_url }: Pick<WorkspaceDeps, 'ports_url'>, { params }: CreateCall): string {
  return portUrl(ports_url, params.workspace_id, params.port)
}

function ofPort({ params, now }: CreateCall) {
  return { workspace_id: params.workspace_id, port: params.port, created_at: now.toISOString() }
}
