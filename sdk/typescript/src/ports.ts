import type { App } from './app.ts'
import { type List, listOf } from './list.ts'
import type { Port, PortCallback, PortLink, PortToken } from './schemas.ts'
import type { CallOptions } from './transport.ts'

/** Private URLs of a workspace's ports, which require a credential created here. */
export function portsOf(app: App, workspace_id: string) {
  const all = `/v1/workspaces/${workspace_id}/ports`
  const at = (port: number, below = '') => `${all}/${port}${below}`
  return {
    list: (options?: CallOptions): List<Port> => listOf(app, all, {}, options),
    get: (port: number, options?: CallOptions): Promise<Port> => app.call({ method: 'GET', path: at(port) }, options),
    /** Exposes a port. A repeated call has no further effect. */
    expose: (port: number, options?: CallOptions): Promise<Port> => app.call({ method: 'PUT', path: at(port), repeats: 'keyed' }, options),
    close: (port: number, options?: CallOptions): Promise<void> => app.call({ method: 'DELETE', path: at(port) }, options),
    token: (port: number, asked: { ttl_seconds?: number } = {}, options?: CallOptions): Promise<PortToken> =>
      app.call({ method: 'POST', path: at(port, '/tokens'), json: asked }, options),
    link: (port: number, asked: { path?: string; ttl_seconds?: number } = {}, options?: CallOptions): Promise<PortLink> =>
      app.call({ method: 'POST', path: at(port, '/links'), json: asked }, options),
    /** Creates the callback URL, shown only once, and replaces the one before. */
    callback: (port: number, options?: CallOptions): Promise<PortCallback> =>
      app.call({ method: 'POST', path: at(port, '/callback') }, options),
    revokeCallback: (port: number, options?: CallOptions): Promise<void> =>
      app.call({ method: 'DELETE', path: at(port, '/callback') }, options),
  }
}
