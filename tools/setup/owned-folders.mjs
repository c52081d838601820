/**
 * The folders of a data directory whose files belong to a process that is not root, as `{ path, mode, owner }`. A start makes them, and a
 * restore gives all that is in them to the users of this computer.
 */
export function ownedFolders(layout, accounts) {
  const { api, cell } = accounts
  return [
    { path: layout.api_keys, mode: 0o700, owner: api },
    { path: layout.cell_keys, mode: 0o700, owner: cell },
    { path: layout.trees, mode: 0o700, owner: cell },
    // The group is the cell's, which reads what builds need; what is made in it has that group.
    { path: layout.uploads, mode: 0o2750, owner: { uid: api.uid, gid: cell.gid } },
  ]
}
