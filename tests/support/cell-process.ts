import { join } from 'node:path'
import type { World } from '../api/support.ts'
import { startMainProcess, type MainProcess } from './main-process.ts'

export async function startCellProcess(w: World, hostd_socket: string): Promise<MainProcess> {
  const at = (name: string) => join(w.keys_dir, name)
  const anywhere = { host: '127.0.0.1', port: 0 }
  const config = {
    ...{ instance: '0000', base_url: 'http://api.test', cell_endpoint: 'http://one.cell.test', log_level: 'info' },
    ...{ listen: anywhere, ops_listen: anywhere, database_url: w.database.url, cell_name: 'one', hostd_socket },
    ...{ ports_socket: at('ports'), secrets_socket: at('secrets'), trees_dir: at('trees'), uploads_dir: '' },
    ...{ secret_keys_dir: at('cell'), secret_keys_command: '', tree_revisions_kept: { seconds: 3600, count: 100 } },
    cors_origins: [],
    disk: { folder: '/', reserve_bytes: 0 },
    park_after: { freeze_after_seconds: 0, hibernate_after_seconds: 0 },
    quarantine_days: 7,
    warm_machines_max: 0,
  }
  return startMainProcess('cell', config, { config_path: at('cell.json') })
}
