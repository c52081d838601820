import { fail } from '../../lib/fail.ts'

/** See the specification (App, "Egress policy"). Without the header any version may be replaced. */
export function refuseStaleVersion(named_headers: { 'If-Match'?: string }, current_version: number): void {
  const given = named_headers['If-Match']
  if (given === undefined || Number(given.replaceAll('"', '')) === current_version) return
  throw fail('conflict', 'version_mismatch', `The policy is at version ${current_version} by now`, { details: { current_version } })
}

export function etagOf(version: number): { etag: string } {
  return { etag: `"${version}"` }
}
