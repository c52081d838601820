import type { GitCloneRequest, GitCommitRequest } from '../../../../contract/internal/agent-tools.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { GitClone, GitCommit } from '../../../../contract/schemas/cell/git.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import type { ResolvedSecret } from '../../policies/secrets/resolve.ts'
import { environmentOf, type WorkspaceEnvironment } from '../environment.ts'
import { checkPath } from '../files/path.ts'

export function cloneOf(asked: GitClone, authorization: string | undefined, environment: WorkspaceEnvironment): GitCloneRequest {
  if (asked.authorization_secret !== undefined && authorization !== undefined)
    throw invalid('authorization_secret', 'must not be given together with the header X-Git-Authorization')
  return {
    url: checkUrl(asked.url),
    path: checkPath('path', asked.path),
    env: environmentOf(environment),
    timeout_ms: asked.timeout_ms ?? LIMITS.git.clone_timeout_ms_default,
    ...(asked.branch === undefined ? {} : { branch: checkBranch(asked.branch) }),
    ...(asked.depth === undefined ? {} : { depth: asked.depth }),
    ...(authorization === undefined ? {} : { authorization: checkAuthorization('X-Git-Authorization', authorization) }),
  }
}

/** A refusal must not reveal the value. */
export function withSecret(clone: GitCloneRequest, { value, authority }: ResolvedSecret): GitCloneRequest {
  // A placeholder's form cannot be checked: the proxy injects the real value.
  return { ...clone, authorization: authority === null ? checkAuthorization('authorization_secret', value) : value }
}

/** Allows only spellings in which every parser reads the same host. */
function checkUrl(url: string): string {
  if (!/^https:\/\/[A-Za-z0-9[]/.test(url)) throw invalid('url', 'must start with https:// and a host')

  if (/[\u0000-\u0020\u007f\\]/.test(url) || !url.isWellFormed()) throw invalid('url', 'must not contain spaces, control characters or \\')
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed === null || parsed.hostname === '') throw invalid('url', 'is not a URL')
  const authority = url.slice('https://'.length).split(/[/?#]/)[0] ?? ''
  if (authority.includes('@')) throw invalid('url', 'must not contain a user or password: send X-Git-Authorization')
  return url
}

/** Git's own rules, as far as a name could be mistaken for an option or a revision expression. */
function checkBranch(branch: string): string {
  if (/^[-/.]|[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|[/.]$|\.lock$/.test(branch) || !branch.isWellFormed())
    throw invalid('branch', 'is not the name of a branch or tag')
  return branch
}

function checkAuthorization(field: string, value: string): string {
  if (value.length <= LIMITS.git.authorization_characters_max && /^[A-Za-z][A-Za-z0-9-]* [\x21-\x7e]+$/.test(value)) return value
  throw invalid(field, 'must hold a scheme and credentials, such as Basic or Bearer')
}

export function commitOf(asked: GitCommit, environment: WorkspaceEnvironment): GitCommitRequest {
  if (asked.message.trim() === '' || asked.message.includes('\0') || !asked.message.isWellFormed())
    throw invalid('message', 'must be Unicode text without NUL, and not blank')
  const { author, paths } = asked
  for (const [at, each] of (paths ?? []).entries()) {
    if (each.includes('\0') || !each.isWellFormed() || Buffer.byteLength(each) > LIMITS.file.path_bytes_max)
      throw invalid(`paths.${at}`, `must be Unicode text without NUL of ${LIMITS.file.path_bytes_max} bytes at most`)
  }
  if (author !== undefined) for (const field of ['name', 'email'] as const) checkIdentity(`author.${field}`, author[field])
  return {
    path: checkPath('path', asked.path),
    message: asked.message,
    env: environmentOf(environment),
    timeout_ms: LIMITS.git.timeout_ms,
    ...(paths === undefined ? {} : { paths }),
    ...(author === undefined ? {} : { author }),
  }
}

/** Refuses characters that Git drops silently, or at which it ends the name. */
function checkIdentity(field: string, value: string): void {
  if (/[\u0000-\u001f\u007f<>]/.test(value) || !value.isWellFormed() || !/[\p{L}\p{N}]/u.test(value))
    throw invalid(field, 'must be a name without control characters, < and >')
}

function invalid(path: string, message: string): Failure {
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message }] } })
}
