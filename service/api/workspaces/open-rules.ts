import { isDeepStrictEqual } from 'node:util'
import { IGNORABLE, type Ignorable, type OpenRequest } from '../../../contract/schemas/workspaces.ts'
import { parseBase } from '../../core/templates/recipes/check.ts'
import { isCut } from '../../core/workspaces/ceilings.ts'
import { fixedSeconds } from '../../core/workspaces/idle.ts'
import { fail } from '../../lib/fail.ts'
import type { FoundTemplate, TemplateVersion } from './store.ts'
import { refuseDeleted } from './refusals.ts'
import { ceilings, type WorkspaceRow } from './row.ts'

const RESERVED_PREFIX = 'sf:'

export function checkKey(key: string): void {
  if (key.startsWith(RESERVED_PREFIX)) {
    throw fail('validation_failed', 'reserved_key_prefix', `Keys that start with ${RESERVED_PREFIX} are reserved`, {
      details: { field: 'key' },
    })
  }
}

export function checkIdlePolicy(policy: string | null | undefined): void {
  if (policy === null || policy === undefined || policy === 'adaptive' || policy === 'never' || fixedSeconds(policy) !== null) return
  const issues = [{ path: 'idle_policy', message: 'must be adaptive, never or fixed:<60..604800>' }]
  throw fail('validation_failed', null, 'The request is not valid', { details: { issues } })
}

export function checkOpenBody(body: OpenRequest): void {
  checkKey(body.key)
  checkIdlePolicy(body.idle_policy)
  // App, "Open rules" 8: file-first workspaces are always persistent and never idle.
  if (body.mode !== 'file_first') return
  if (body.lifetime === 'session') throw notOfFileFirst('lifetime')
  refuseIdleness(body)
}

function refuseIdleness({ idle_policy, background_seconds }: OpenRequest): void {
  if (idle_policy !== undefined) throw notOfFileFirst('idle_policy')
  if (background_seconds !== undefined) throw notOfFileFirst('background_seconds')
}

const NOT_OF_FILE_FIRST = { lifetime: 'session lifetime', idle_policy: 'idle policy', background_seconds: 'work in the background' }

function notOfFileFirst(field: keyof typeof NOT_OF_FILE_FIRST) {
  return fail('validation_failed', 'not_supported_for_mode', `A file-first workspace has no ${NOT_OF_FILE_FIRST[field]}`, {
    details: { field, mode: 'file_first' },
  })
}

/** See the specification (App, "Open rules" 7). Some rules exist only here. */
export function checkReopen(row: WorkspaceRow, body: OpenRequest): void {
  refuseDeleted(row, 'open')
  if (body.mode !== undefined && body.mode !== row.mode) {
    throw fail('conflict', 'mode_mismatch', `The workspace is ${row.mode}`, { details: { mode: row.mode, requested_mode: body.mode } })
  }
  if (body.lifetime !== undefined && body.lifetime !== row.lifetime) {
    throw fail('conflict', 'lifetime_mismatch', `The workspace is ${row.lifetime}`, {
      details: { lifetime: row.lifetime, requested_lifetime: body.lifetime },
    })
  }
  if (row.mode === 'file_first') refuseIdleness(body)
  refuseSessionIdlePolicy(row.lifetime, body)
}

/** Includes inputs, but only if the call does not apply them. */
export type AskedOfFound = {
  [Name in 'template' | 'caps' | 'inputs' | 'idle_policy' | 'background_seconds']?: OpenRequest[Name] | undefined
} & { base?: { slug: string; version: number | null } | undefined }

export function ignoredBy(row: WorkspaceRow, asked: AskedOfFound): Ignorable[] {
  const { template, base, caps, inputs, idle_policy, background_seconds } = asked
  const differs: Record<Ignorable, boolean> = {
    template: template !== undefined && !isOf(row, templateNamed(template)),
    base: base !== undefined && !isOf(row, base),
    caps: caps !== undefined && (!isDeepStrictEqual(caps, row.caps) || isCut(caps, ceilings(row))),
    inputs: inputs !== undefined && !isDeepStrictEqual(inputs, row.inputs),
    idle_policy: idle_policy !== undefined && idle_policy !== row.idle_policy,
    background_seconds: background_seconds !== undefined && background_seconds !== row.background_seconds,
  }
  return IGNORABLE.filter((name) => differs[name])
}

interface Named {
  slug: string
  /** null: the latest. */
  version: number | null
}

export function templateNamed(template: string): Named {
  return parseBase(template) ?? { slug: template, version: null }
}

function isOf(row: WorkspaceRow, { slug, version }: Named): boolean {
  return slug === row.template_slug && (version ?? row.template_version) === row.template_version
}

export interface NewWorkspaceTerms {
  version: TemplateVersion
  lifetime: 'persistent' | 'session'
}

export function newTerms(found: FoundTemplate | null, body: OpenRequest, { file_first }: { file_first: boolean }): NewWorkspaceTerms {
  if (found === null) throw fail('not_found', null, `There is no such template: ${body.template}`)
  if (found.archived_at) throw fail('conflict', 'template_archived', 'The template is archived')
  if (found.version === null) throw noVersion(found, templateNamed(body.template))
  if (body.mode === 'file_first') {
    checkFileFirst(found.version, file_first)
    return { version: found.version, lifetime: 'persistent' }
  }
  const lifetime = body.lifetime ?? found.version.settings.defaults.lifetime ?? 'persistent'
  refuseSessionIdlePolicy(lifetime, body)
  return { version: found.version, lifetime }
}

function noVersion({ latest_version }: FoundTemplate, { slug, version }: Named) {
  if (latest_version === null) return fail('not_found', null, `There is no such template: ${slug} has no published version`)
  const message = `There is no published version ${version} of ${slug}: the latest is ${latest_version}`
  return fail('not_found', 'version_not_found', message, { details: { latest_version } })
}

function checkFileFirst({ layered }: TemplateVersion, is_available: boolean): void {
  if (!is_available) {
    throw fail('validation_failed', 'mode_not_available', 'File-first workspaces are not available here', { details: { field: 'mode' } })
  }
  if (layered) return
  throw fail('conflict', 'layout_unsupported', 'A file-first workspace needs a template version with layers', {
    details: { disk_layouts: ['legacy'] },
  })
}

function refuseSessionIdlePolicy(lifetime: 'persistent' | 'session', body: OpenRequest): void {
  if (lifetime === 'session' && body.idle_policy !== undefined) {
    throw fail('conflict', 'session_lifetime', 'A session workspace has no idle policy')
  }
}
