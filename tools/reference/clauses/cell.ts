import type { Clause } from './clause.ts'

export const CELL_CLAUSES: readonly Clause[] = [
  {
    name: 'Exec session',
    says:
      'A command without a shell, under an id that the caller chooses: 201 when it was made, 200 when it was there. One that cannot start is no error of HTTP: it is `failed_to_start`, with a reason and without output. Its environment is, from below: the guest’s, the template’s, the text inputs, the request’s; secrets are added, and one whose name is taken is 422 `env_collision`. ' +
      'Ids that begin with `sfstart.` are the template’s.',
    routes: ['exec.start', 'exec.get'],
    tests: ['tests/gateway/exec.test.ts', 'tests/acceptance/exec.test.ts', 'tests/gateway/secrets.test.ts'],
  },
  {
    name: 'Execution',
    says: 'What is recorded of a command in a file-first workspace, under an id of 8 to 128 characters that the caller chooses: how it ended, the revision before and after, output up to a limit, what was changed, how long each part took, and, where it is `failed` or `lost`, why.',
    routes: ['exec.start', 'executions.get'],
    tests: ['tests/gateway/executions.test.ts', 'tests/gateway/executions-killed.test.ts', 'tests/acceptance/executions.test.ts'],
  },
  {
    name: 'Idle record',
    says: 'The policy and its time-out, what was done lately, since when it is idle, and when it will be suspended: by the policy or by a request, whichever is earlier.',
    routes: ['idle.get'],
    tests: ['tests/gateway/idle.test.ts'],
  },
  {
    name: 'Port access records',
    says: 'The URL of a port is `https://PORT-HOST_ID.{port_host}`. A token begins with `sfp_` and lives 60 to 86,400 seconds, a link 7 days at most, and a callback’s URL is shown once.',
    routes: ['ports.expose', 'port-tokens.create', 'port-links.create', 'port-callbacks.create'],
    tests: ['tests/api/ports.test.ts', 'service/core/workspaces/ports/host-id.test.ts'],
  },
  {
    name: 'Workspace as seen by tool calls',
    says: 'A running workspace serves; a parked one is woken first; a suspended one is 409 `workspace_not_running`, but for reads of its disk; one that an operation holds is 409 `workspace_busy` and says whether reads work; a token of an earlier epoch is 409 `stale_epoch`. What was refused was not done. The cell resumes nothing by itself.',
    tests: ['tests/gateway/gate.test.ts', 'service/cell/admission/admit.test.ts', 'tests/gateway/disk-reads.test.ts'],
  },
  {
    name: 'Parking',
    says: 'An idle workspace is frozen after seconds and saved to the local disk later. It stays `running` and is billed so; the next call wakes it. Calls, attached streams, commands until they end, keepalives and processes that use processor or network keep it. Traffic alone wakes nothing; timers are late, never early.',
    tests: ['tests/gateway/parking.test.ts', 'service/cell/machines/residency-rules.test.ts', 'tests/acceptance/residency.test.ts'],
  },
  {
    name: 'File-first workspace',
    says: 'It runs from its open on, and every change of its files is the next revision, under `If-Match` if the caller likes. Executions that failed or are lost publish nothing. It is never suspended and takes no place among the running ones.',
    routes: ['workspaces.open', 'files.write'],
    tests: ['tests/api/file-first.test.ts', 'tests/gateway/trees.test.ts'],
  },
  {
    name: 'Port-exposed workspaces',
    says: 'A request to a port is answered at once, wakes the workspace, resumes it, or waits for what is under way. While it is open the workspace stays awake, and the idle time runs from its end.',
    tests: ['tests/api/port-visitors.test.ts', 'tests/acceptance/ports.test.ts'],
  },
  {
    name: 'Endpoints',
    says: 'Every route of the gateway with the tool that it asks of the token, where any will do for some. A read of a file takes `offset` and `length`, or one `Range`.',
    tests: ['tests/generated/gateway.test.ts', 'tests/gateway/files.test.ts'],
  },
  {
    name: 'File rules',
    says: [
      'A write or a patch may have an `Idempotency-Key` of at most 100 characters; a repeat on a tree says `Idempotent-Replayed: true`.',
      'A patch is done whole or not at all. With `expected_revision`, another one is 409 `revision_mismatch`.',
      'What was read from the disk of a sleeping workspace says `X-Served-From: disk`.',
    ],
    routes: ['files.write', 'files.patch', 'files.read'],
    tests: ['tests/gateway/files.test.ts', 'tests/gateway/patch.test.ts', 'tests/gateway/disk-reads.test.ts'],
  },
  {
    name: 'File-first rules',
    says: [
      '`execution_id` is the key: the same request gets the recorded result, another one 409 `execution_id_reused`.',
      'While an execution runs, a second one and every change of files are 409 `execution_in_progress`.',
      '503 `no_execution_host` means that nothing ran, and may be tried again under the same id.',
      'Every answer about files has `X-Tree-Revision`, refusals of a caller with a token too; changes take `If-Match`.',
      'Only what lies below `/home/user` exists: elsewhere a read is 404 and a change 422 `outside_tree_root`, whatever else is wrong. Names are UTF-8.',
      'Whatever needs a machine that stays is 409 `not_supported_for_mode`, and fields of executions are 422 elsewhere.',
      'An execution cannot be cancelled. It sees the template’s files; one of these that it deletes is back at the next.',
      'It is metered as a workspace that runs for as long; the files are by their current revision; the open is admitted as a start.',
      'Nothing but files below `/home/user` outlives it.',
    ],
    routes: ['exec.start', 'executions.get', 'files.write', 'files.read', 'files.list'],
    tests: [
      'tests/gateway/executions.test.ts',
      'tests/gateway/trees.test.ts',
      'tests/gateway/modes.test.ts',
      'tests/api/file-first-cell.test.ts',
    ],
  },
  {
    name: 'Port access',
    says: [
      'Nobody gets to a port without a token, the cookie of a link, or its callback URL; whoever has none wakes nothing.',
      'A token comes as a bearer or in `X-Service-Token`, and the app never sees it.',
      'A link sets a cookie for its one host and leads on to its path.',
      'What is below the callback URL reaches the app below `/`, with its query.',
      'Closing a port ends all its credentials for good.',
      'The URL stays the same for the workspace’s life; a fork has its own and begins with no port.',
      'The app listens on all addresses, and is told the public host and who asks.',
      'HTTP/1.1, streams and WebSockets pass as they are.',
      'Every refusal of Berth has `x-service-reason`; an answer without it is the app’s.',
      'What goes out through a port is egress; what comes in is free.',
    ],
    routes: ['ports.expose', 'ports.close', 'port-tokens.create', 'port-links.create', 'port-callbacks.create'],
    tests: [
      'tests/api/ports.test.ts',
      'tests/api/port-visitors.test.ts',
      'tests/acceptance/ports.test.ts',
      'tests/tidy/port-refusals.test.ts',
    ],
  },
  {
    name: 'Events',
    says: [
      'Streams of output are made of `output`, `exit`, `heartbeat` every 15 seconds, and `error`, as lines of JSON or as server-sent events, by offset.',
      'A WebSocket ends with 1000 after the exit, 1001 when the gateway goes, 4410 where the workspace is gone, and else with 4000 and the status of the error, which was sent before.',
    ],
    routes: ['exec.output', 'exec.attach', 'pty.attach'],
    tests: ['tests/gateway/output.test.ts', 'tests/gateway/attach.test.ts', 'tests/acceptance/attach.test.ts'],
  },
  {
    name: 'Errors',
    says: 'The gateway’s codes and reasons. Parameters and unknown fields are 400, values that a field does not take are 422. Stdin has 1 MiB at most, a write or patch 7 MiB.',
    tests: ['tests/ledger/ledger.test.ts', 'tests/generated/gateway.test.ts'],
  },
  {
    name: 'Cell gateway codes',
    says: 'The closed set of the gateway’s codes with the status of each, and whether a repeat may succeed.',
    tests: ['tests/ledger/ledger.test.ts'],
  },
  {
    name: 'File, parking and host reasons',
    says: 'Why a patch, a read of a sleeping disk or a wake was refused, and whether it may be tried again: `edit_not_found`, `edit_ambiguous`, `edit_not_text`, `offline_unavailable`, `offline_budget`, `offline_changed`, `host_capacity`, `wake_failed`, and their like.',
    routes: ['files.patch', 'files.search'],
    tests: ['tests/gateway/patch.test.ts', 'tests/gateway/disk-reads.test.ts', 'tests/gateway/parking.test.ts'],
  },
]
