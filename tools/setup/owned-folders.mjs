/** Made at a start; a restore gives their contents to the users of this computer. */
export function ownedFolders(layout, accounts) {
  const { api, cell } = accounts
  return [
    { path: layout.api_keys, mode: 0o700, owner: api },
    { path: layout.cell_keys, mode: 0o700, owner: cell },
    { path: layout.trees, mode: 0o700, owner: cell },
    // The cell reads uploads through its group, which the setgid bit gives to new files.
    { path: layout.uploads, mode: 0o2750, owner: { uid: api.uid, gid: cell.gid } },
  ]
}
