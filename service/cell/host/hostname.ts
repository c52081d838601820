/** The guest's hostname, made from the id, because a key may contain any characters. */
export function hostnameOf(workspace_id: string): string {
  return `ws-${workspace_id.slice(-12)}`
}
