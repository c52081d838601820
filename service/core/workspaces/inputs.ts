import { LIMITS } from '../../../contract/limits.ts'
import { isSecret, type TemplateInput } from '../../../contract/schemas/template-settings.ts'
import { fail } from '../../lib/fail.ts'

/** Characters that a one-line environment variable cannot contain (App, "Reasons": input_invalid). */
const UNUSABLE = /[\r\n\0]/

/**
 * Checks the inputs of a workspace (App, "Workspace text inputs"). Refuses unknown before invalid before missing inputs (App, "Open rules"
 * 6).
 */
export function resolveInputs(declared: Record<string, TemplateInput>, given: Record<string, unknown>): Record<string, string> {
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(declared, name))
  if (unknown.length > 0) throw refuse('input_unknown', 'The template version does not declare these inputs', unknown)
  const invalid = Object.entries(given)
    .filter(([name, value]) => !isUsable(value) || isSecretOf(declared, name))
    .map(([name]) => name)
  if (invalid.length > 0) throw refuse('input_invalid', 'These inputs are not usable text', invalid)
  const texts = Object.entries(declared).filter(([, input]) => !isSecret(input))
  const values = texts.map(([name, input]) => [name, given[name] ?? input.default] as const)
  const missing = values.filter(([name, value]) => value === undefined && declared[name]?.required === true).map(([name]) => name)
  if (missing.length > 0) throw refuse('input_required', 'These inputs are required', missing)
  return Object.fromEntries(values.filter(([, value]) => value !== undefined)) as Record<string, string>
}

function isSecretOf(declared: Record<string, TemplateInput>, name: string): boolean {
  const input = declared[name]
  return input !== undefined && isSecret(input)
}

function isUsable(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed() && !UNUSABLE.test(value) && Buffer.byteLength(value) <= LIMITS.input.bytes_max
}

function refuse(reason: 'input_unknown' | 'input_invalid' | 'input_required', message: string, names: string[]) {
  return fail('validation_failed', reason, message, { details: { names: names.sort().slice(0, LIMITS.input.names_told_max).map(told) } })
}

/** Replaces characters that PostgreSQL cannot store. */
function told(name: string): string {
  return name.slice(0, LIMITS.input.name_told_characters_max).replaceAll('\0', '\ufffd').toWellFormed()
}
