import { readFileSync } from 'node:fs'
import { Type, type Static, type TSchema } from 'typebox'
import { Value } from 'typebox/value'
import { LIMITS } from '../contract/limits.ts'
import { applicationName, type DatabaseOptions } from './db/options.ts'

export interface Address {
  host: string
  port: number
}

interface ProcessConfig {
  /** 4 hex digits from the data directory, part of the name of everything this installation creates on the computer. */
  instance: string
  listen: Address
  /** Serves /healthz, /readyz and /metrics. */
  ops_listen: Address
  /** Public address of the api, without a trailing slash; the issuer of tool tokens. */
  base_url: string
  /** Public address of this computer's cell, without a trailing slash. */
  cell_endpoint: string
  cors_origins: string[]
  database: DatabaseOptions
  log_level: 'debug' | 'info' | 'warn' | 'error'
  /** File system of PostgreSQL, and the bytes that stay free. */
  disk: { folder: string; reserve_bytes: number }
  /** Failpoints to enable; only tests set them. */
  failpoints: string
}

export interface ApiConfig extends ProcessConfig {
  /** Scheme, host and public port shared by the URLs of all ports, without a trailing slash. */
  ports_url: string
  /** Folder of the private keys for tool tokens. Only this process's user can enter it. */
  signing_keys_dir: string
  /** All callers together; 0: no limit. */
  edge_requests_per_minute: number
  /** Per API key or person; 0: no limit. */
  caller_requests_per_minute: number
  /** Wrong credentials per address; 0: no limit. */
  wrong_credentials_per_minute: number
  /** Uses layers for new workspaces if their template version supports them. */
  layered_opens: boolean
  file_first: boolean
  /** Folder of upload contents; '': none. */
  uploads_dir: string
  /** Mirror of Debian packages; '': packages are not looked up. */
  package_mirror: string
  /** Registration for invited people, for everybody, or for these email domains. */
  registration: 'invitation' | 'open' | string[]
  /** Mail goes to the server, or into `directory` if `smtp_url` is empty. */
  mail: { smtp_url: string; from: string; directory: string }
  /** Payment service; null: an operator marks invoices as paid. */
  stripe: { secret_key: string; webhook_secret: string; api_url: string; return_url: string } | null
}

export interface CellConfig extends ProcessConfig {
  cell_name: string
  hostd_socket: string
  ports_socket: string
  /** Socket of the proxy that injects secrets; the cell connects to it and answers its requests. */
  secrets_socket: string
  /** Folder of the private keys that open secrets. Only this process's user can enter it. */
  secret_keys_dir: string
  /** Program that wraps and unwraps these keys with a key service; '': they are stored unwrapped. */
  secret_keys_command: string
  /** Idle times before a machine is frozen or hibernated; 0: never. */
  park_after: { freeze_after_seconds: number; hibernate_after_seconds: number }
  /** Folder of file-first trees. Only this process's user can enter it. */
  trees_dir: string
  uploads_dir: string
  tree_revisions_kept: { seconds: number; count: number }
  /** Retention of resources without a row; 0: they are removed at once. */
  quarantine_days: number
  /** Warm sandboxes kept on this computer; 0: every start is cold. */
  warm_machines_max: number
}

/** Configuration of `main.ts bootstrap`; the login may create tables and roles. */
export interface SetupConfig {
  database_url: string
  embedded: boolean
  base_url: string
  first_key_file: string
  /** File for the lines that people see when everything is ready. */
  announcement_file: string
  /** Folder of mail; empty or absent: a mail server gets it. */
  mail_directory?: string
  templates: PlatformTemplate[]
}

export interface PlatformTemplate {
  name: string
  /** SHA-256 of the image, the lowest layer. */
  digest: string
  settings: unknown
}

const Listen = Type.Object({ host: Type.String({ minLength: 1 }), port: Type.Integer({ minimum: 0, maximum: 65_535 }) })
const Url = Type.String({ pattern: '^https?://[^/]+' })
const PortsUrl = Type.String({ pattern: '^https?://[^/]+$' })
const PROCESS = {
  instance: Type.String({ pattern: '^[0-9a-f]{4}$' }),
  listen: Listen,
  ops_listen: Listen,
  base_url: Url,
  cell_endpoint: Url,
  cors_origins: Type.Array(Type.String({ pattern: '^https?://[^/]+$' })),
  database_url: Type.String({ minLength: 1 }),
  log_level: Type.Union([Type.Literal('debug'), Type.Literal('info'), Type.Literal('warn'), Type.Literal('error')]),
  disk: Type.Object(
    { folder: Type.String({ minLength: 1 }), reserve_bytes: Type.Integer({ minimum: 0 }) },
    { additionalProperties: false },
  ),
}
const strict = { additionalProperties: false }
const ApiFile = Type.Object(
  {
    ...PROCESS,
    ports_url: PortsUrl,
    signing_keys_dir: Type.String({ minLength: 1 }),
    edge_requests_per_minute: Type.Integer({ minimum: 0 }),
    caller_requests_per_minute: Type.Integer({ minimum: 0 }),
    wrong_credentials_per_minute: Type.Integer({ minimum: 0 }),
    layered_opens: Type.Boolean(),
    file_first: Type.Boolean(),
    uploads_dir: Type.String(),
    package_mirror: Type.String(),
    registration: Type.Union([Type.Literal('invitation'), Type.Literal('open'), Type.Array(Type.String())]),
    mail: Type.Object({ smtp_url: Type.String(), from: Type.String({ minLength: 3 }), directory: Type.String({ minLength: 1 }) }, strict),
    stripe: Type.Union([
      Type.Null(),
      Type.Object(
        { secret_key: Type.String({ minLength: 1 }), webhook_secret: Type.String({ minLength: 1 }), api_url: Url, return_url: Url },
        strict,
      ),
    ]),
  },
  strict,
)
const CellFile = Type.Object(
  {
    ...PROCESS,
    cell_name: Type.String({ minLength: 1 }),
    hostd_socket: Type.String({ minLength: 1 }),
    ports_socket: Type.String({ minLength: 1 }),
    secrets_socket: Type.String({ minLength: 1 }),
    trees_dir: Type.String({ minLength: 1 }),
    uploads_dir: Type.String(),
    tree_revisions_kept: Type.Object(
      {
        seconds: Type.Integer({ minimum: 1, maximum: LIMITS.tree.revisions_kept_seconds_max }),
        count: Type.Integer({ minimum: 1, maximum: LIMITS.tree.revisions_kept_max }),
      },
      strict,
    ),
    secret_keys_dir: Type.String({ minLength: 1 }),
    secret_keys_command: Type.String(),
    park_after: Type.Object(
      { freeze_after_seconds: Type.Number({ minimum: 0 }), hibernate_after_seconds: Type.Number({ minimum: 0 }) },
      strict,
    ),
    quarantine_days: Type.Number({ minimum: 0 }),
    warm_machines_max: Type.Integer({ minimum: 0, maximum: 1000 }),
  },
  strict,
)
const SetupFile = Type.Object(
  {
    database_url: Type.String({ minLength: 1 }),
    embedded: Type.Boolean(),
    base_url: Url,
    first_key_file: Type.String({ minLength: 1 }),
    announcement_file: Type.String({ minLength: 1 }),
    mail_directory: Type.Optional(Type.String()),
    templates: Type.Array(
      Type.Object({ name: Type.String(), digest: Type.String({ pattern: '^[0-9a-f]{64}$' }), settings: Type.Unknown() }, strict),
    ),
  },
  strict,
)

// tools/setup/config.mjs writes these files from flags, environment, file and defaults. They are checked again, because a hand-made file
// must not start half a service.

export function readApiConfig(path: string, failpoints: string): ApiConfig {
  const { database_url, ...config } = readConfigFile(path, ApiFile)
  return { ...config, failpoints, database: databaseOptions(database_url, 'api') }
}

export function readCellConfig(path: string, failpoints: string): CellConfig {
  const { database_url, ...config } = readConfigFile(path, CellFile)
  return { ...config, failpoints, database: databaseOptions(database_url, 'cell') }
}

export function readSetupConfig(path: string): SetupConfig {
  return readConfigFile(path, SetupFile)
}

function databaseOptions(url: string, name: 'api' | 'cell'): DatabaseOptions {
  return { url, role: `berth_${name}`, connections_max: 20, application_name: applicationName(name) }
}

function readConfigFile<S extends TSchema>(path: string, schema: S): Static<S> {
  const value: unknown = JSON.parse(readFileSync(path, 'utf8'))
  const [problem] = Value.Errors(schema, value)
  if (problem !== undefined) throw new Error(`${path}: ${problem.instancePath || 'the file'} ${problem.message}`)
  return value as Static<S>
}
