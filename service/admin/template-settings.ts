import { Value } from 'typebox/value'
import { TemplateSettings, templateSettingsProblems } from '../../contract/schemas/template-settings.ts'

/** Reports all problems in one error. */
export function checkSettings(value: unknown, what: string): TemplateSettings {
  const problems = [...Value.Errors(TemplateSettings, value)].map(({ instancePath, message }) => `${instancePath || '/'} ${message}`)
  if (problems.length === 0) problems.push(...templateSettingsProblems(value as TemplateSettings))
  if (problems.length > 0)
    throw new Error(`${what} has settings that are not valid:\n${problems.map((problem) => `- ${problem}`).join('\n')}`)
  return value as TemplateSettings
}
