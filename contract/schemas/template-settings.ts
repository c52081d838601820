import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'

const strict = { additionalProperties: false }
const Name = Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$' })
const Text = Type.String({ pattern: '^[^\\p{Cs}\\u0000]*$', maxLength: LIMITS.input.bytes_max })

const resources = {
  cpu_millis: Type.Integer({ minimum: 100, maximum: 1_000_000 }),
  memory_mib: Type.Integer({ minimum: 64, maximum: 16_777_216 }),
  disk_gib: Type.Integer({ minimum: 1, maximum: 65_536 }),
}

/** Something that whoever opens a workspace of this template says about it; it reaches commands as an environment variable. */
export const TemplateInput = Type.Object(
  {
    required: Type.Optional(Type.Boolean({ description: 'An open without it is refused with input_required' })),
    default: Type.Optional(Text),
    description: Type.Optional(Type.String({ maxLength: 1000 })),
  },
  { ...strict, title: 'TemplateInput' },
)
export type TemplateInput = Static<typeof TemplateInput>

/** What a template version says beside its files: `template_versions.settings`. */
export const TemplateSettings = Type.Object(
  {
    env: Type.Record(Name, Text, { ...strict, maxProperties: 200, description: 'Environment of every command' }),
    inputs: Type.Record(Name, TemplateInput, { ...strict, maxProperties: 100 }),
    defaults: Type.Object(
      {
        ...resources,
        lifetime: Type.Optional(Type.Union([Type.Literal('persistent'), Type.Literal('session')])),
        idle_policy: Type.Optional(Type.String({ pattern: '^(adaptive|never|fixed:[1-9][0-9]{0,8})$' })),
        session_idle_seconds: Type.Optional(
          Type.Integer({ minimum: LIMITS.idle.fixed_seconds_min, maximum: LIMITS.idle.fixed_seconds_max }),
        ),
      },
      { ...strict, description: 'For an open that does not say otherwise' },
    ),
    ceiling: Type.Object(resources, { ...strict, description: 'No open gets more' }),
    guest_features: Type.Optional(
      Type.Array(Type.Union([Type.Literal('browser')]), { maxItems: 10, description: 'What its files serve beyond commands and files' }),
    ),
  },
  { ...strict, title: 'TemplateSettings' },
)
export type TemplateSettings = Static<typeof TemplateSettings>

/** Returns what the schema alone cannot say, as sentences; none when the settings are consistent. */
export function templateSettingsProblems(settings: TemplateSettings): string[] {
  const { env, inputs, defaults, ceiling } = settings
  const above = (['cpu_millis', 'memory_mib', 'disk_gib'] as const).filter((name) => defaults[name] > ceiling[name])
  const twice = Object.keys(inputs).filter((name) => Object.hasOwn(env, name))
  const pointless = Object.entries(inputs).filter(([, input]) => input.required === true && input.default !== undefined)
  return [
    ...above.map((name) => `defaults.${name} is above ceiling.${name}`),
    ...twice.map((name) => `${name} is both an input and in env`),
    ...pointless.map(([name]) => `inputs.${name} is required and has a default`),
    ...idlePolicyProblems(defaults.idle_policy),
  ]
}

function idlePolicyProblems(policy: string | undefined): string[] {
  const seconds = Number(/^fixed:(\d+)$/.exec(policy ?? '')?.[1] ?? LIMITS.idle.fixed_seconds_min)
  if (seconds >= LIMITS.idle.fixed_seconds_min && seconds <= LIMITS.idle.fixed_seconds_max) return []
  return [`defaults.idle_policy must be between ${LIMITS.idle.fixed_seconds_min} and ${LIMITS.idle.fixed_seconds_max} seconds`]
}
