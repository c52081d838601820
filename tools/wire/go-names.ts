// Conventions of Go for the messages of contract/internal: names, widths of integers, and exceptions for single fields.

/** Types that have another name in Go. */
export const GO_TYPES: Readonly<Record<string, string>> = {
  CommandHeader: 'Fence',
  VolumeHeader: 'Fence',
  VolumeSubject: 'Subject',
  ExecSession: 'ExecRecord',
  ExecStdin: 'Stdin',
  ListedCommand: 'ExecListed',
  ListedTerminal: 'PtyListed',
  TerminalSession: 'PtyRecord',
}

/** Messages that only TypeScript distinguishes: Go uses the struct of the equal message. */
export const ONLY_TYPESCRIPT: ReadonlySet<string> = new Set(['VolumeHeader', 'VolumeSubject'])

/** Messages whose fields other messages repeat. Go embeds their structs. */
export const EMBEDDED: ReadonlySet<string> = new Set(['CommandHeader', 'VolumeHeader', 'PtySize', 'GitRequest', 'Refusal'])

/** A required field of this name is embedded with its tag, so that Go code can use the subject's fields directly. */
export const EMBEDDED_FIELD = 'subject'

/** Integers with another type. All other integers are int64. */
const INTEGERS: Readonly<Record<string, string>> = {
  ...named('int', 'cpu_millis memory_mib disk_gib headroom_mib quota_gib place agent_protocol port ports secret_ports line'),
  ...named('int', 'entries entries_max slots fitted_slots shells'),
  ...named('int', 'running_sessions pid ppid exit_code threads column files_scanned replacements max_matches context_lines'),
  ...named('int', 'added modified metadata deleted replaced ahead behind depth width height'),
  ...named('int', 'version status retry_after_seconds max_age_seconds connections'),
  ...named('uint64', 'id lease'),
  ...named('uint32', 'mode uid gid'),
  ...named('uint16', 'cols rows'),
}

interface GoField {
  name?: string
  type?: string
  /** Option of the JSON tag; '': no option. */
  omit?: '' | 'omitempty' | 'omitzero'
}

/** Fields whose name or type in Go does not follow from the schema. */
export const GO_FIELDS: Readonly<Record<string, GoField>> = {
  'Change.change': { name: 'Kind' },
  'CheckpointRequest.resources': { type: 'Resources', omit: 'omitzero' },
  'ExecSession.reason': { type: '*string' },
  'ExecSession.stdout_available_from': { name: 'StdoutAvailable' },
  'ExecSession.stderr_available_from': { name: 'StderrAvailable' },
  'Credential.kind': { type: 'Kind' },
  'FileList.next_cursor': { omit: '' }, // only older agents omit it
  'HelloFrame.port_host': { omit: '' },
  'IdleFrame.at_ms_ago': { omit: '' },
  'ListedCommand.reason': { type: '*string' },
  'ListedTerminal.output_bytes': { name: 'Bytes' },
  'Machine.egress': { type: 'EgressInForce', omit: '' }, // hostd always sends this field
  'PatchRequest.content': { type: '*string' }, // "" is valid content
  'ReleaseFrame.used_ms_ago': { omit: '' },
  'SearchResult.next_cursor': { omit: '' }, // only older agents omit it
  'TerminalSession.output_bytes': { name: 'Bytes' },
  'TerminalSession.output_available_from': { name: 'Available' },
  'Volume.read_only': { type: 'bool', omit: 'omitempty' }, // the cell always sends the field; hostd's own files omit false
  'WriteResult.revision': { omit: '' },
}

/** Order of fields in Go, where it differs from that of the public schema. These fields are written first. */
export const GO_ORDER: Readonly<Record<string, readonly string[]>> = {
  ExecSession: ['session_id', 'argv', 'cwd', 'user', 'state'],
  ListedCommand: ['session_id', 'argv', 'argv_truncated', 'cwd', 'user', 'state'],
  ListedTerminal: ['session_id', 'argv', 'argv_truncated', 'cwd', 'user', 'state'],
  TerminalSession: ['session_id', 'argv', 'cwd', 'user', 'state'],
}

const INITIALISMS: Readonly<Record<string, string>> = {
  cidrs: 'CIDRs',
  cpu: 'CPU',
  dns: 'DNS',
  gib: 'GiB',
  gid: 'GID',
  id: 'ID',
  ids: 'IDs',
  mib: 'MiB',
  ms: 'MS',
  pid: 'PID',
  ppid: 'PPID',
  sha256: 'SHA256',
  tcp: 'TCP',
  udp: 'UDP',
  uid: 'UID',
  url: 'URL',
  utf8: 'UTF8',
  websocket: 'WebSocket',
}

export function integerOf(field: string): string {
  return INTEGERS[field] ?? 'int64'
}

/** snake_case to a Go name: agent_key becomes AgentKey. */
export function goName(word: string): string {
  return word
    .split('_')
    .map((part) => INITIALISMS[part] ?? part.charAt(0).toUpperCase() + part.slice(1))
    .join('')
}

function named(type: string, fields: string): Record<string, string> {
  return Object.fromEntries(fields.split(' ').map((field) => [field, type]))
}
