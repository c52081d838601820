import { RESERVED_PATH } from '../../../../contract/schemas/ports.ts'
import { hostIdOf } from './host-id.ts'

/** @param ports_url scheme, host and public port that all port URLs share. */
export function portUrl(ports_url: string, workspace_id: string, port: number): string {
  const { protocol, host } = new URL(ports_url)
  return `${protocol}//${port}-${hostIdOf(workspace_id)}.${host}`
}

export function linkUrl(port_url: string, link: string): string {
  return `${port_url}${RESERVED_PATH}/link?t=${link}`
}

/** The caller appends the app's path. */
export function callbackUrl(port_url: string, callback: string): string {
  return `${port_url}${RESERVED_PATH}/callback/${callback}/`
}
