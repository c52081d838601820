import type { Clause } from './clause.ts'

export const APP_CLAUSES: readonly Clause[] = [
  {
    name: 'Conventions',
    says:
      'Ids are UUIDv7 in lower case. Timestamps are RFC 3339 in UTC with a `Z`. A field’s name has its unit. Money is in minor units with a currency. Bodies are JSON, and a property that a route does not know is 422. ' +
      'Every answer carries `X-Request-Id`. A list is `{data, next_cursor}`.',
    tests: ['tests/generated/conventions.test.ts', 'tests/api/conventions.test.ts'],
  },
  {
    name: 'Error envelope',
    says: 'Everything but a 2xx is `{error: {code, message, request_id, retryable, operation_id?, details?}}`, and its code is one of a closed set. Callers branch on code and `details.reason`, never on the message.',
    tests: ['tests/generated/conventions.test.ts', 'tests/api/app.test.ts'],
  },
  {
    name: 'Principal',
    says: 'Who a caller is: a person with memberships, or an API key with its project and the tools that it permits: `exec`, `files`, `pty`, `process`, `git`, `browser`.',
    routes: ['principals.me'],
    tests: ['tests/api/principals.test.ts'],
  },
  {
    name: 'Organization',
    says: 'It has id, name, slug, creation time, and the caller’s role in it: `owner`, `admin`, `member` or `billing`, or null.',
    routes: ['organizations.list', 'organizations.get'],
    tests: ['tests/api/principals.test.ts', 'tests/api/members.test.ts'],
  },
  {
    name: 'Workspace (view)',
    says:
      'What is shown of a workspace. `ready` means that it runs and is meant to. `startup` says how far the start commands and services of its version are: `pending`, `running`, `ready`, or `failed` with step, exit code and the end of the output; null where the version has none. ' +
      'What was deleted stays readable with `deleted_at`. Lifetime and mode never change. Keys that begin with `sf:` are the service’s.',
    routes: ['workspaces.get', 'workspaces.list'],
    tests: ['tests/api/workspaces.test.ts', 'tests/api/startup.test.ts'],
  },
  {
    name: 'Workspace text inputs',
    says: 'The inputs that a workspace was opened with, given or by default. They are in the environment of every command, terminal and start command: above the template’s, below the call’s own.',
    routes: ['workspaces.inputs'],
    tests: ['tests/api/workspaces.test.ts', 'tests/api/open.test.ts'],
  },
  {
    name: 'Suspend request',
    says: '`{requested_at, after_seconds, not_before}`, shown as `idle.suspend_request`; null where there is none.',
    routes: ['workspaces.suspend_when_idle'],
    tests: ['tests/api/idle.test.ts'],
  },
  {
    name: 'Operation',
    says: 'Work on a workspace that goes on after the answer: its kind, its state (`queued`, `capacity_pending`, `running`, `succeeded`, `failed`, `canceled`), why it is in it, when it began and ended, its error or result, and what was asked. It stays readable after its workspace is deleted.',
    routes: ['operations.get', 'operations.list'],
    tests: ['tests/api/operations.test.ts'],
  },
  {
    name: 'Tool token',
    says: 'A JWT by ES256 that a cell takes for one workspace, its tools and its current epoch, for 15 minutes at most. Its claims are iss, aud, sub, pty, org, prj, ws, epoch, tools, sid, iat, exp and jti. The keys that verify it are public.',
    routes: ['tool-tokens.create', 'tool-tokens.keys'],
    tests: ['tests/api/tokens.test.ts', 'tests/gateway/tokens.test.ts'],
  },
  {
    name: 'Tool-token rules',
    says: 'A token is of the agent session of its workspace, principal and label, which is made or used again. Its tools are some of those that the key or the role permits, else 403 names the denied ones. A suspended workspace gets one, for reads of its disk. While it neither runs nor is suspended the answer is 409 with the operation.',
    routes: ['tool-tokens.create'],
    tests: ['tests/api/tokens.test.ts', 'tests/api/rate.test.ts'],
  },
  {
    name: 'Agent session',
    says: 'One for each workspace, principal and `agent_label` of 1 to 100 characters.',
    routes: ['agent-sessions.list'],
    tests: ['tests/api/tokens.test.ts'],
  },
  {
    name: 'Secret',
    says: 'A value that is written and never answered, under a name that an environment can have. Versions are numbered; a new one erases the values of those before. On a workspace a bound name is `available`, `not_allowed` or `deleted`.',
    routes: ['secrets.create', 'secrets.get', 'workspaces.secrets'],
    tests: ['tests/api/secrets.test.ts'],
  },
  {
    name: 'Workspace secrets replace',
    says: 'What is bound holds from the next command or terminal on. Every name must be a live secret that the workspace may use and that is for `exec` and `pty`, else 422 `secret_not_available` and nothing changes. A name that the template’s environment or a text input has is 422 `env_collision`.',
    routes: ['workspaces.set_secrets'],
    tests: ['tests/api/secrets.test.ts', 'tests/gateway/secrets.test.ts'],
  },
  {
    name: 'Volume',
    says: 'A disk that workspaces share: a name that is unique among the live ones of its project, a quota in GiB, whether the whole organization may have it, its state and its attachments, each with a path and a mode.',
    routes: ['volumes.get'],
    tests: ['tests/api/volumes.test.ts'],
  },
  {
    name: 'Volumes',
    says: 'The plan says how many and how large. Only owners and admins make one that the whole organization may have. A name in use is 409 `name_in_use`. One that is attached is deleted only where the caller forces it and repeats its name, else 409 `volume_attached`.',
    routes: ['volumes.create', 'volumes.delete'],
    tests: ['tests/api/volumes.test.ts'],
  },
  {
    name: 'Egress policy',
    says:
      'What a workspace may reach: `allow_all`, `allowlist` with at most 256 rules and 64 public ranges, or `deny_all`. The workspace’s override wins over the project’s policy, that over `allow_all`; what is enforced stays within the ceiling of the template version, and an override that would not is 422 `egress_widening`. ' +
      'Every write is a version; `If-Match` of another is 409 `version_mismatch`. All problems are named at once. Projects’ policies are written by owners, admins and keys with tools.',
    routes: ['egress.project_put', 'egress.workspace_put', 'egress.workspace_get'],
    tests: ['tests/api/egress.test.ts', 'contract/egress/check.test.ts', 'contract/egress/intersect.test.ts'],
  },
  {
    name: 'Other state-bearing records',
    says: 'A volume is `creating` until its storage is there and `deleting` until its data is gone. A policy is `not_enforced` until the host has acknowledged it for the current epoch. Test instances end when they are closed, idle, or their draft is discarded.',
    routes: ['volumes.create', 'egress.workspace_get'],
    tests: ['tests/api/volumes.test.ts', 'tests/api/egress-enforcement.test.ts', 'tests/api/template-drafts.test.ts'],
  },
  {
    name: 'Template drafts and test instances',
    says: 'Templates change in drafts, which are workspaces, and are tried in test instances, which are session workspaces that never write to the draft. Each route is there below the organization and below `/v1/templates`. People who are owners or admins and keys with a tool may use them. A template has one live draft, opened from a base version. States of it are captured, tried and published; a publish is refused while another is under way and after somebody else has published.',
    routes: [
      'test-instances.create',
      'drafts.get',
      'drafts.create',
      'drafts.discard',
      'draft-states.list',
      'draft-states.create',
      'draft-test-instances.list',
      'draft-test-instances.create',
      'drafts.publish',
    ],
    tests: ['tests/api/test-instances.test.ts', 'tests/api/template-drafts.test.ts', 'tests/api/template-draft-publish.test.ts'],
  },
  {
    name: 'Usage and spend',
    says: 'What is measured (`cpu_seconds`, `memory_gib_seconds`, `storage_gib_seconds`, `egress_bytes`, `ingress_bytes`, `volume_storage_gib_seconds`), what of it the plan includes, what more costs, and the cap on that with its state: `unavailable`, `off`, `paused`, `within_allowance`, `accruing`, `warning` from 80 percent on, `reached`.',
    routes: ['usage.summary', 'usage.series', 'spend.get', 'spend.policy_get', 'spend.policy_put'],
    tests: ['tests/api/usage.test.ts', 'tests/api/spend.test.ts', 'service/core/money/usage/spend.test.ts'],
  },
  {
    name: 'Usage facts',
    says: 'Totals come from hourly entries that become final after a time for what is late. What is billed is whole units, rounded down for each workspace and hour.',
    routes: ['usage.summary', 'usage.series'],
    tests: ['service/cell/metering/ledger.test.ts', 'tests/api/usage.test.ts'],
  },
  {
    name: 'Client versions',
    says: 'For each client package its newest version (null while there is none to be had), the oldest that is still served rightly, how to upgrade, and where its release notes are.',
    routes: ['client-versions.get'],
    tests: ['tests/api/app.test.ts'],
  },
  {
    name: 'Workspace observed state',
    says:
      'The eleven states, and what leads from one to the next. A suspend stores everything first, and where that fails the workspace runs on. A resume, a reset and a move begin a new epoch, in which old tokens are stale. One operation at a time; an open or a resume joins a start that is under way. ' +
      'Where an allowance is used up, running workspaces are suspended with everything kept.',
    routes: ['workspaces.get'],
    tests: ['contract/states/commands.test.ts', 'tests/api/lifecycle.test.ts', 'service/cell/operations/operations.test.ts'],
  },
  {
    name: 'Capacity wait',
    says: 'A start that no host can take waits as `capacity_pending`, 15 minutes from its creation. Then it has failed with `capacity_unavailable`, and nothing was started.',
    routes: ['workspaces.open', 'workspaces.resume', 'workspaces.fork'],
    tests: ['service/cell/operations/capacity.test.ts'],
  },
  {
    name: 'Open body',
    says: 'The key and the template are required. Of caps, what the template has, what is asked and what the plan allows, the least is the ceiling.',
    routes: ['workspaces.open'],
    tests: ['tests/api/open.test.ts', 'service/core/workspaces/rules.test.ts'],
  },
  {
    name: 'Open rules',
    says: [
      'An open of a key that exists changes and resets nothing, and says which version of the template it has.',
      'Opens of one key at the same time share one workspace and one operation.',
      'A running workspace whose start-up failed is not ready: the open is 202 with an operation that runs the failed step again.',
      'With `Prefer: wait` an open is held until its operation has ended or the time is over. 200 has the running workspace, the operation, a token and `Preference-Applied`; anything else is 202.',
      'A secret that is unknown or may not be used is 422 `secret_not_available`, and nothing is made. Secret inputs of the version join the bound ones; a required one that may not be used is 422 `input_required`. A bound name that the environment of the template or a text input has is 422 `env_collision`.',
      'Inputs are refused as `input_unknown`, `input_invalid` or `input_required`, with their names.',
      'A session workspace is gone when its session ends, and its key opens a new one. Another lifetime or mode than the live workspace’s is 409 `lifetime_mismatch` or `mode_mismatch`.',
      'A file-first workspace is ready at once, at revision 0, with a token and no operation. It needs a layered version, is always persistent and never idle; 422 `mode_not_available` where there are none.',
      'A new workspace is layered where its version allows it and the installation does.',
      'Every other refusal: 404 of template or key, 402 of the plan, 403 of its limits, 409 of an operation or a deleted key, 422 of a reserved key.',
    ],
    routes: ['workspaces.open'],
    tests: [
      'tests/api/open.test.ts',
      'tests/api/startup.test.ts',
      'tests/api/secret-inputs.test.ts',
      'tests/api/file-first.test.ts',
      'tests/api/admission.test.ts',
    ],
  },
  {
    name: 'Lifecycle rules',
    says: 'What each command of the lifecycle does in each state, for each lifetime and mode, and what it is refused with.',
    routes: ['workspaces.suspend', 'workspaces.resume', 'workspaces.snapshot', 'workspaces.fork', 'workspaces.reset', 'workspaces.delete'],
    tests: ['contract/states/commands.test.ts', 'tests/api/lifecycle.test.ts', 'tests/api/checkpoints.test.ts'],
  },
  {
    name: 'Resume',
    says: 'It makes a resume or joins the start under way. With `Prefer: wait` one that runs already is 200 at once, also when its start-up failed. Tools beyond the caller’s are 403 and make nothing; a token that cannot be issued is null.',
    routes: ['workspaces.resume'],
    tests: ['tests/api/lifecycle.test.ts'],
  },
  {
    name: 'Suspend when idle',
    says: 'A suspend that is put off until the workspace was idle for 30 to 3,600 seconds. A tool call or a resume cancels it, work puts it off, a repeat replaces it. It makes no operation; where a suspend is under way it answers that one.',
    routes: ['workspaces.suspend_when_idle', 'workspaces.cancel_suspend_when_idle'],
    tests: ['tests/api/idle.test.ts', 'service/cell/machines/idle-clock.test.ts'],
  },
  {
    name: 'Close',
    says: 'The end of a session workspace, as a delete with `ended_reason` `closed`; a persistent one is 409 `not_session`. A repeat answers the same operation.',
    routes: ['workspaces.close'],
    tests: ['tests/api/lifecycle.test.ts'],
  },
  {
    name: 'Authentication',
    says: [
      'A project’s API key is `sfk_`, its public id and its secret. It is of one project and bounds the tools of its tokens. Without one, with another kind of header, or with one that is malformed, unknown, revoked or expired, a call is 401. Cookies are ignored.',
      'A person’s session is `sfu_` and 43 characters. It ends 30 days after its last use and after 90 days in any case. Signing in, a step-up, a new password and a change of the second factor give a new one and revoke the one before. Routes of accounts take nothing but it, and so does the route that sets the spend policy: a key that leaked raises no cap. It is refused as `mfa_required`, `email_unverified`, or `step_up_required` where the password was not asked for in the last 10 minutes.',
      'A tool token is taken by a cell only, and a cell takes nothing else.',
      'The versions of clients are public.',
      'A key that is revoked and a workspace that is deleted stop new tool calls within 30 seconds.',
      'Ports have credentials of their own.',
    ],
    tests: ['tests/api/auth.test.ts', 'tests/api/sessions.test.ts', 'tests/api/second-factor.test.ts', 'tests/gateway/tokens.test.ts'],
  },
  {
    name: 'Application API codes',
    says: 'The closed set of codes with the status of each, and whether a repeat may succeed.',
    tests: ['tests/ledger/ledger.test.ts', 'service/http/pipeline.test.ts'],
  },
  {
    name: 'Reasons',
    says: 'The reasons of each code, and what the details of some say: of 402 the allowance that is used up and the cap, of 403 the limit, of 409 the operation, of 422 the field.',
    tests: ['tests/ledger/ledger.test.ts', 'tests/api/spend.test.ts', 'tests/api/admission.test.ts'],
  },
  {
    name: '409 conflict reasons',
    says: 'The reasons of a conflict, and which of them may be tried again.',
    tests: ['tests/ledger/ledger.test.ts'],
  },
  {
    name: 'Errors',
    says: 'The sets of codes and reasons as a whole.',
    tests: ['tests/ledger/ledger.test.ts'],
  },
  {
    name: 'Operation errors',
    says: 'The codes that a failed operation ends with, and whether a repeat may succeed.',
    routes: ['operations.get'],
    tests: ['tests/api/operations.test.ts', 'service/cell/operations/failpoints.test.ts'],
  },
  {
    name: 'Limits',
    says: 'Sizes, times and rates that hold for everybody. A request over one is 429 with `Retry-After`, whereas limits of a plan are 402 or 403. Something in front of the service may answer 429 with a request id of `edge`.',
    tests: ['tests/api/rate.test.ts', 'tests/api/idempotency.test.ts', 'service/http/buckets.test.ts'],
  },
  {
    name: 'Versioning',
    says: [
      'All routes are under `/v1`. Fields, values, codes and reasons may be added, and clients ignore what they do not know.',
      'What is said of clients’ versions may be kept for an hour. Clients ask seldom, in the background, and never fail of it.',
      'The description is OpenAPI 3.1.0 and says that the API is 0.1.0.',
      'Client libraries are below 1.0: their minor releases may break, the API does not.',
    ],
    routes: ['client-versions.get', 'openapi.get'],
    tests: ['tests/api/openapi.test.ts', 'tests/api/app.test.ts'],
  },
]
