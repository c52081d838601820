// Go's own conventions for the messages of contract/internal: names, widths of integers, and deviations of single fields.

/** Types whose name in Go is another. */
export const GO_TYPES: Readonly<Record<string, string>> = {
  CommandHeader: 'Fence',
  VolumeHeader: 'Fence',
  VolumeSubject: 'Subject',
}

/** Messages that only TypeScript tells apart from another message: Go has no struct of its own for them. */
export const ONLY_TYPESCRIPT: ReadonlySet<string> = new Set(['VolumeHeader', 'VolumeSubject'])

/** Messages that another message begins with, and that Go embeds there. */
export const EMBEDDED: ReadonlySet<string> = new Set(['CommandHeader', 'VolumeHeader'])

/** A required field of this name is embedded too, with its tag: Go promotes the fields of a subject. */
export const EMBEDDED_FIELD = 'subject'

/** All other integers are int64. */
const INTEGERS: Readonly<Record<string, string>> = {
  ...named('int', 'cpu_millis memory_mib disk_gib headroom_mib quota_gib place agent_protocol port ports secret_ports line'),
  ...named('int', 'entries entries_max slots fitted_slots shells'),
  ...named('uint32', 'mode uid gid'),
}

interface GoField {
  type: string
  /** Option of the JSON tag; '': none. */
  omit: '' | 'omitempty' | 'omitzero'
}

/** Fields whose Go type does not follow from the schema. */
export const GO_FIELDS: Readonly<Record<string, GoField>> = {
  'CheckpointRequest.resources': { type: 'Resources', omit: 'omitzero' },
  'Machine.egress': { type: 'EgressInForce', omit: '' }, // hostd always sends it
  'Volume.read_only': { type: 'bool', omit: 'omitempty' }, // the cell always sends it; hostd's own files omit false
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
  sha256: 'SHA256',
  tcp: 'TCP',
  udp: 'UDP',
  uid: 'UID',
  utf8: 'UTF8',
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
