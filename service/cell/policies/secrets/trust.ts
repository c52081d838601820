import { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { AgentLink } from '../../host/agent-link.ts'
import { type CallBounds, readBytes } from '../../host/agent-answer.ts'
import type { LiveMachine } from '../../host/live-machine.ts'
import type { KnownAuthority } from './authorities.ts'

/** Debian's files: an administrator's authority, and all authorities. */
const OWN_FILE = '/usr/local/share/ca-certificates/berth-authority.crt'
const BUNDLE = '/etc/ssl/certs/ca-certificates.crt'
const BUNDLE_BYTES_MAX = 4 << 20
const MACHINES_MAX = 10_000

/** Variables for programs that use their own list of authorities. */
export const TRUST_VARIABLES: Readonly<Record<string, string>> = {
  SSL_CERT_FILE: BUNDLE,
  CURL_CA_BUNDLE: BUNDLE,
  REQUESTS_CA_BUNDLE: BUNDLE,
  GIT_SSL_CAINFO: BUNDLE,
  AWS_CA_BUNDLE: BUNDLE,
  NODE_EXTRA_CA_CERTS: OWN_FILE,
}

export interface Trust {
  /** @returns false after a failure; commands start nevertheless */
  bring(
    agent: AgentLink,
    workspace_id: string,
    machine: Pick<LiveMachine, 'epoch' | 'fence'>,
    authority: KnownAuthority,
    bounds: CallBounds,
  ): Promise<boolean>
}

export function createTrust(log: Logger): Trust {
  const brought = new Map<string, string>()
  return {
    async bring(agent, workspace_id, machine, authority, bounds) {
      const name = `${machine.epoch} ${machine.fence} ${authority.id}`
      if (brought.get(workspace_id) === name) return true
      try {
        await write(agent, authority.certificate, bounds)
      } catch (error) {
        bounds.signal.throwIfAborted()
        log.info({ workspace_id, err: error }, 'a guest was not brought to trust its authority')
        return false
      }
      brought.delete(workspace_id)
      brought.set(workspace_id, name)
      for (const id of brought.keys()) if (brought.size > MACHINES_MAX) brought.delete(id)
      return true
    },
  }
}

/** Writes the authority's own file too, because the guest's tools rebuild the bundle from such files. */
async function write(agent: AgentLink, certificate: string, bounds: CallBounds): Promise<void> {
  await put(agent, OWN_FILE, Buffer.from(certificate), bounds)
  const before = await bundleOf(agent, bounds)
  if (before.includes(certificate)) return
  await put(agent, BUNDLE, Buffer.concat([before, Buffer.from(certificate)]), bounds)
}

async function put(agent: AgentLink, path: string, content: Buffer, bounds: CallBounds): Promise<void> {
  const sent = { content_length: content.length, key: null }
  await agent.writeFile(path, { create_parents: true, mode: '0644' }, Readable.from([content]), sent, bounds)
}

/** @returns an empty bundle if the template has no public authorities. */
async function bundleOf(agent: AgentLink, bounds: CallBounds): Promise<Buffer> {
  const { size } = await agent.statFile(BUNDLE, false, bounds).catch(() => ({ size: 0 }))
  if (size === 0) return Buffer.alloc(0)
  return readBytes(await agent.openFile(BUNDLE, {}, bounds), BUNDLE_BYTES_MAX, bounds)
}
