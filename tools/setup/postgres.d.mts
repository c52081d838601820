export interface OsUser {
  uid: number
  gid: number
}

export interface Cluster {
  data_dir: string
  user: OsUser
  configuration: string
  hba: string
  ident: string
}

export const POSTGRES_SUPERUSER: string
export const POSTGRES_DATABASE: string
export function ensurePostgres(options: { cache_dir: string }): Promise<string>
export function ensureCluster(options: Cluster & { bin_dir: string; sync?: boolean }): Promise<boolean>
export function writeClusterFiles(options: Cluster): Promise<void>
export function clusterConfiguration(options: { socket_dir: string; settings?: Record<string, string | number> }): string
export function runAs(user: OsUser, command: string, args: string[], options?: { timeout_seconds?: number; cwd?: string }): Promise<string>
