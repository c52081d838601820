/**
 * Folders that belong to a process other than root. A start creates them, and a restore gives their contents to the users of this computer.
 */
export function ownedFolders(layout, accounts) {
  const { api, cell } = accounts
  return [
    { path: layout.api_keys, mode: 0o700, owner: api },
    { path: layout.cell_keys, mode: 0o700, owner: cell },
    { path: layout.trees, mode: 0o700, owner: cell },
    // The cell reads uploads for builds through its group. The setgid bit gives new files that group.
    { path: layout.uploads, mode: 0o2750, owner: { uid: api.uid, gid: cell.gid } },
  ]
}
