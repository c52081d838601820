import type { TemplateDefaults, TemplateSettingsInput } from '../../../contract/schemas/template-builds.ts'
import { templateSettingsProblems, type TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import { fail } from '../../lib/fail.ts'

export interface GivenSettings {
  defaults?: TemplateDefaults | undefined
  settings?: TemplateSettingsInput | undefined
}

/** Absent settings are empty. Sizes come from the workspace's own version. */
export function savedSettings(of: TemplateSettings, said: GivenSettings): TemplateSettings {
  const { defaults = {}, settings = {} } = said
  const { cpu_millis, memory_mib, disk_gib } = of.defaults
  return checked({
    env: settings.env ?? {},
    inputs: settings.inputs ?? {},
    defaults: { cpu_millis, memory_mib, disk_gib, lifetime: 'persistent', idle_policy: 'adaptive', ...settings.defaults, ...defaults },
    ceiling: settings.ceiling ?? of.ceiling,
    ...pick(settings, 'start'),
    ...pick(settings, 'services'),
    ...pick(settings, 'warm'),
    ...(settings.guest_features === undefined ? pick(of, 'guest_features') : pick(settings, 'guest_features')),
  })
}

export function draftSettings(of: TemplateSettings, { defaults, settings = {} }: GivenSettings): TemplateSettings {
  if (defaults !== undefined && settings.defaults !== undefined)
    throw fail('validation_failed', 'invalid_settings', 'defaults are said twice', { details: { field: 'settings.defaults' } })
  const { update_policy: _policy, defaults: in_settings, ...fields } = settings
  const said = defaults ?? in_settings
  const { cpu_millis, memory_mib, disk_gib } = of.defaults
  const made = {
    ...of,
    ...fields,
    ...(said === undefined ? {} : { defaults: { cpu_millis, memory_mib, disk_gib, ...said } }),
  }
  const [problem] = templateSettingsProblems(made)
  if (problem === undefined) return made
  throw fail('validation_failed', 'invalid_settings', `With those of the base: ${problem}`, { details: { field: 'settings' } })
}

function pick<T extends object, K extends keyof T>(from: T, name: K): Pick<T, K> | object {
  return from[name] === undefined ? {} : { [name]: from[name] }
}

function checked(settings: TemplateSettings): TemplateSettings {
  const [problem] = templateSettingsProblems(settings)
  if (problem === undefined) return settings
  throw fail('validation_failed', 'invalid_defaults', problem, { details: { field: 'defaults' } })
}

export function refuseUpdatePolicy({ settings }: GivenSettings): void {
  if (settings?.update_policy !== 'automatic') return
  const message = 'Workspaces keep the version that they were made from'
  throw fail('validation_failed', 'update_policy_not_available', message, { details: { field: 'settings.update_policy' } })
}
