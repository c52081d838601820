/** A start makes these folders. A restore changes the owners of their contents to the users of this computer. */
export function ownedFolders(layout, accounts) {
  const { api, cell } = accounts
  return [
    { path: layout.api_keys, mode: 0o700, owner: api },
    { path: layout.cell_keys, mode: 0o700, owner: cell },
    { path: layout.trees, mode: 0o700, owner: cell },
    // The set-group-ID bit gives new files the cell's group, so that the cell can read uploads.
    { path: layout.uploads, mode: 0o2750, owner: { uid: api.uid, gid: cell.gid } },
  ]
}
