import * as agentFiles from '../../contract/internal/agent-files.ts'
import * as agentRuns from '../../contract/internal/agent-runs.ts'
import * as agentTools from '../../contract/internal/agent-tools.ts'
import * as agent from '../../contract/internal/agent.ts'
import * as disks from '../../contract/internal/host-disks.ts'
import * as egress from '../../contract/internal/host-egress.ts'
import * as errors from '../../contract/internal/host-errors.ts'
import * as inventory from '../../contract/internal/host-inventory.ts'
import * as layers from '../../contract/internal/host-layers.ts'
import * as subject from '../../contract/internal/host-subject.ts'
import * as trees from '../../contract/internal/host-trees.ts'
import * as host from '../../contract/internal/host.ts'
import * as ports from '../../contract/internal/ports.ts'
import { EGRESS_MODES } from '../../contract/egress/policy.ts'
import { MEMORY_REFUSALS } from '../../contract/errors.ts'
import { LIMITS } from '../../contract/limits.ts'
import { FileInfo } from '../../contract/schemas/cell/file.ts'
import { GitFile, GitHead, GitStatus } from '../../contract/schemas/cell/git.ts'
import { ListedCommand, ListedTerminal } from '../../contract/schemas/cell/lists.ts'
import { Process, ProcessList } from '../../contract/schemas/cell/process.ts'
import { SearchMatch } from '../../contract/schemas/cell/search.ts'
import { ExecSession, ExecStdin } from '../../contract/schemas/cell/session.ts'
import { TarResult } from '../../contract/schemas/cell/tar.ts'
import { TerminalSession } from '../../contract/schemas/cell/terminal.ts'
import { DENIED_PROTOCOLS } from '../../contract/schemas/egress.ts'
import type { WireFile } from './go.ts'

const words = (list: readonly string[]) => Object.fromEntries(list.map((word) => [word, '']))

function wireFile(name: string, exports: WireFile['exports'], more: Pick<WireFile, 'constants' | 'numbers' | 'errors'> = {}): WireFile {
  return {
    source: `contract/internal/${name}.ts`,
    target: `machine/internal/wire/generated_${name.replaceAll('-', '_')}.go`,
    exports,
    ...more,
  }
}

const { Credential, Refusal, ...frames } = ports

/** Where an agent's message equals a public schema of the gateway, the public schema is used. */
export const WIRE_FILES: readonly WireFile[] = [
  wireFile('agent', agent, {
    numbers: [
      {
        about: 'Versions of the protocol of agents.',
        values: { AgentProtocol: agent.AGENT_PROTOCOLS.current, AgentProtocolMin: agent.AGENT_PROTOCOLS.oldest },
      },
    ],
  }),
  wireFile(
    'agent-files',
    { ...agentFiles, FileInfo, SearchMatch, TarResult },
    {
      numbers: [{ about: 'Bounds of a tar.', values: { TarBytesMax: LIMITS.tar.upload_bytes_max, TarEntriesMax: LIMITS.tar.entries_max } }],
    },
  ),
  wireFile(
    'agent-runs',
    { ...agentRuns, ExecSession, ExecStdin, ListedCommand, ListedTerminal, TerminalSession },
    {
      numbers: [{ about: 'Bytes of one POST /exec/{id}/stdin.', values: { StdinBytesMax: LIMITS.exec.stdin_bytes_max } }],
    },
  ),
  wireFile(
    'agent-tools',
    { ...agentTools, GitFile, GitHead, GitStatus, Process, ProcessList },
    {
      numbers: [
        {
          about: 'Bounds of answers.',
          values: {
            GitFilesMax: LIMITS.git.status_files_max,
            ListenersMax: LIMITS.port.addresses_max,
            ProcessesMax: LIMITS.process.list_max,
            ProcessCommandBytesMax: LIMITS.process.command_bytes_max,
          },
        },
      ],
    },
  ),
  wireFile('host', host, { numbers: [{ about: 'Volumes of one machine.', values: { VolumePlaces: host.VOLUME_PLACES } }] }),
  wireFile('host-disks', disks, {
    numbers: [{ about: 'Subjects or volumes in one request.', values: { MeasuresMax: disks.MEASURES_MAX } }],
  }),
  wireFile('host-egress', egress, {
    constants: [
      { prefix: 'Egress', about: 'Modes of a policy.', words: words(EGRESS_MODES) },
      {
        prefix: 'Egress',
        about: 'The revision in force without a policy: all public addresses are reachable.',
        words: words([egress.EGRESS_DEFAULT]),
      },
      { prefix: 'Egress', about: 'States of the policy in force.', words: egress.EGRESS_STATE_WORDS },
      { prefix: 'Denied', about: 'Protocols of a denial. dns: a DNS query.', words: words(DENIED_PROTOCOLS) },
    ],
  }),
  wireFile(
    'host-errors',
    {},
    {
      errors: { type: 'HostErrorKind', variable: 'HostErrors', about: 'Codes of a HostError.', codes: errors.HOST_ERRORS },
    },
  ),
  wireFile('host-inventory', inventory, {
    constants: [
      {
        prefix: 'Refused',
        about: 'Values of memory_refused, and of `why` in the details of checkpoint_incompatible and checkpoint_corrupt.',
        words: words(MEMORY_REFUSALS),
      },
    ],
  }),
  wireFile('host-layers', layers, {
    numbers: [{ about: 'Findings of one layer.', values: { LayerFindingsMax: layers.LAYER_FINDINGS_MAX } }],
    constants: [
      { prefix: 'Layer', about: 'Values of `why` in the details of layer_refused.', words: layers.LAYER_REFUSALS },
      { prefix: 'Finding', about: 'Rules of findings that are no secret.', words: layers.LAYER_NOTICE_WORDS },
    ],
  }),
  wireFile('host-subject', subject, {
    constants: [{ prefix: 'Kind', about: 'Kinds of owners of a machine.', words: subject.MACHINE_KIND_WORDS, list: 'Kinds' }],
  }),
  wireFile('host-trees', trees, {
    constants: [
      { prefix: 'Tree', about: 'Types of entries.', words: trees.TREE_ENTRY_WORDS },
      { prefix: 'Tree', about: 'Values of `why` in a refused entry.', words: trees.TREE_REFUSALS },
    ],
  }),
  portsFile('door', { Credential, Refusal }),
  portsFile('question', frames, [
    {
      about: 'Version of the protocol, and bounds that the cell has too.',
      values: { protocolVersion: ports.PORT_PROTOCOL, frameMax: LIMITS.port.frame_bytes_max, leasesMax: LIMITS.port.leases_max },
    },
  ]),
]

/** portd's own packages contain the structs of its frames. */
function portsFile(folder: string, exports: WireFile['exports'], numbers: NonNullable<WireFile['numbers']> = []): WireFile {
  return { source: 'contract/internal/ports.ts', target: `machine/internal/ports/${folder}/generated_ports.go`, exports, numbers }
}
