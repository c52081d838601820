import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { toolToken } from '../../access.ts'
import { cellRoute } from '../../route.ts'
import { GitClone, GitCommit, GitCommitted, GitHead, GitStatus, GitStatusQuery } from '../../schemas/cell/git.ts'
import { GitAuthorization } from '../../schemas/cell/headers.ts'
import { Uuid } from '../../schemas/common.ts'

const params = Type.Object({ workspace_id: Uuid() })
const FAILURES = ['guest_feature_unavailable', 'git_failed'] as const

export const gitClone = cellRoute({
  id: 'git.clone',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/git/clone',
  summary:
    'Clone a repository over HTTPS, inside the workspace and under its network policy. Credentials: in X-Git-Authorization, or in a secret that the call names; git sends them ' +
    "as Authorization to the URL's host alone; they are not kept in the repository. No hooks, no submodules, no redirects with credentials",
  access: toolToken('git'),
  modes: ['processful'],
  machine: 'asked',
  params,
  headers: GitAuthorization,
  body: GitClone,
  answers: { 201: { schema: GitHead, description: 'Cloned' } },
  errors: {
    forbidden: ['secret_not_available'],
    validation_failed: ['invalid_path'],
    conflict: [...FAILURES, 'already_exists', 'git_authentication_failed', 'operation_interrupted'],
    rate_limited: ['disk_full', 'too_many_sessions'],
  },
})

export const gitStatus = cellRoute({
  id: 'git.status',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/git/status',
  summary: 'What is not as the last commit has it',
  access: toolToken('git'),
  modes: ['processful'],
  machine: 'asked',
  params,
  query: GitStatusQuery,
  answers: { 200: { schema: GitStatus, description: 'The working tree' } },
  errors: {
    not_found: ['path_not_found'],
    validation_failed: ['invalid_path'],
    conflict: [...FAILURES, 'not_a_repository', 'not_a_directory'],
    rate_limited: ['too_many_sessions'],
  },
})

export const gitCommit = cellRoute({
  id: 'git.commit',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/git/commit',
  summary: 'Add and commit, without running hooks',
  access: toolToken('git'),
  modes: ['processful'],
  machine: 'asked',
  params,
  body: GitCommit,
  body_bytes_max: LIMITS.json.body_bytes_max,
  answers: { 201: { schema: GitCommitted, description: 'Committed' } },
  errors: {
    not_found: ['path_not_found'],
    validation_failed: ['invalid_path'],
    conflict: [...FAILURES, 'not_a_repository', 'not_a_directory', 'nothing_to_commit', 'operation_interrupted'],
    rate_limited: ['disk_full', 'too_many_sessions'],
  },
})
