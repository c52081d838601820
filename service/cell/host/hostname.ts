/** The guest's hostname. Built from the id, because a key may hold any characters. */
export function hostnameOf(workspace_id: string): string {
  return `ws-${workspace_id.slice(-12)}`
}
