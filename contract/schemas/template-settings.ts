import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'

const strict = { additionalProperties: false }
const Name = Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$' })
const Text = Type.String({ pattern: '^[^\\u0000\\ud800-\\udfff]*$', maxLength: LIMITS.input.bytes_max })

const resources = {
  cpu_millis: Type.Integer({ minimum: 100, maximum: 1_000_000 }),
  memory_mib: Type.Integer({ minimum: 64, maximum: 16_777_216 }),
  disk_gib: Type.Integer({ minimum: 1, maximum: 65_536 }),
}

const StepName = Type.String({
  pattern: '^[a-z0-9][a-z0-9_-]{0,39}$',
  description: 'Unique among the commands and services of the version',
})
const Word = Type.String({ pattern: '^[^\\u0000\\ud800-\\udfff]*$', maxLength: LIMITS.startup.word_bytes_max })
const Argv = Type.Array(Word, { minItems: 1, maxItems: LIMITS.startup.argv_max })
const run = {
  name: StepName,
  argv: Argv,
  cwd: Type.Optional(Type.String({ pattern: '^/[^\\u0000\\ud800-\\udfff]*$', maxLength: 4096, description: '/home/user when absent' })),
  user: Type.Optional(Type.String({ pattern: '^[^\\u0000\\ud800-\\udfff]+$', maxLength: 64, description: 'user when absent' })),
  env: Type.Optional(Type.Record(Name, Text, { ...strict, maxProperties: 200 })),
}

/** Runs at each cold start. The next command starts after exit code 0. */
export const StartCommand = Type.Object(
  {
    ...run,
    timeout_seconds: Type.Optional(
      Type.Integer({ minimum: 1, maximum: LIMITS.startup.command_seconds_max, default: LIMITS.startup.command_seconds_default }),
    ),
  },
  { ...strict, title: 'StartCommand' },
)
export type StartCommand = Static<typeof StartCommand>

export const RESTARTS = ['always', 'on_failure', 'never'] as const

/** Starts after the start commands. A running service does not prevent parking or suspension. */
export const Service = Type.Object(
  {
    ...run,
    restart: Type.Optional(
      Type.Unsafe<(typeof RESTARTS)[number]>({ type: 'string', enum: RESTARTS, default: 'always', description: 'When it has ended' }),
    ),
    ready: Type.Optional(
      Type.Union([
        Type.Object({ port: Type.Integer({ minimum: 1, maximum: 65_535, description: 'It accepts connections on the loopback' }) }, strict),
        Type.Object({ argv: Argv }, { ...strict, description: 'This ends with 0; it is asked again until it does' }),
      ]),
    ),
    ready_timeout_seconds: Type.Optional(
      Type.Integer({ minimum: 1, maximum: LIMITS.startup.ready_seconds_max, default: LIMITS.startup.ready_seconds_default }),
    ),
  },
  { ...strict, title: 'Service' },
)
export type Service = Static<typeof Service>

export const TemplateInput = Type.Object(
  {
    kind: Type.Optional(
      Type.Unsafe<'text' | 'secret'>({
        type: 'string',
        enum: ['text', 'secret'],
        default: 'text',
        description: 'secret: the secret of this name is bound to each workspace that may use it; an open says no value of it',
      }),
    ),
    required: Type.Optional(Type.Boolean({ description: 'An open without it is refused with input_required' })),
    default: Type.Optional(Text),
    startup: Type.Optional(
      Type.Boolean({ default: true, description: 'false: start commands and services do not need it, and a warm machine may be without' }),
    ),
    description: Type.Optional(Type.String({ pattern: '^[^\\u0000\\ud800-\\udfff]*$', maxLength: 1000 })),
  },
  { ...strict, title: 'TemplateInput' },
)
export type TemplateInput = Static<typeof TemplateInput>

/** Content of the column `template_versions.settings`. */
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
        background_seconds: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: LIMITS.idle.background_seconds_max,
            description: 'For so long a machine that is unused and quiet is not parked, where that is longer than in its cell',
          }),
        ),
      },
      { ...strict, description: 'For an open that does not say otherwise' },
    ),
    ceiling: Type.Object(resources, { ...strict, description: 'No open gets more' }),
    start: Type.Optional(Type.Array(StartCommand, { maxItems: LIMITS.startup.commands_max })),
    services: Type.Optional(Type.Array(Service, { maxItems: LIMITS.startup.services_max })),
    warm: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'A machine is started up ahead without network, inputs and secrets, and saved; an open that gives nothing its start-up needs restores it',
      }),
    ),
    guest_features: Type.Optional(
      Type.Array(Type.Union([Type.Literal('browser')]), { maxItems: 10, description: 'What its files serve beyond commands and files' }),
    ),
  },
  { ...strict, title: 'TemplateSettings' },
)
export type TemplateSettings = Static<typeof TemplateSettings>

/** Rules that the schema cannot express. */
export function templateSettingsProblems(settings: TemplateSettings): string[] {
  const { env, inputs, defaults, ceiling } = settings
  const above = (['cpu_millis', 'memory_mib', 'disk_gib'] as const).filter((name) => defaults[name] > ceiling[name])
  const twice = Object.keys(inputs).filter((name) => Object.hasOwn(env, name))
  const told = Object.entries(inputs).filter(([, input]) => isSecret(input) && input.default !== undefined)
  const pointless = Object.entries(inputs).filter(([, input]) => input.required === true && input.default !== undefined)
  return [
    ...above.map((name) => `defaults.${name} is above ceiling.${name}`),
    ...twice.map((name) => `${name} is both an input and in env`),
    ...pointless.map(([name]) => `inputs.${name} is required and has a default`),
    ...told.map(([name]) => `inputs.${name} is a secret and has a default`),
    ...idlePolicyProblems(defaults.idle_policy),
    ...stepProblems(settings),
    ...warmProblems(settings),
  ]
}

function warmProblems(settings: TemplateSettings): string[] {
  if (settings.warm !== true) return []
  const needed = inputsForStartup(settings).filter((name) => settings.inputs[name]?.required === true)
  return [
    ...(hasStartup(settings) ? [] : ['warm needs start commands or services']),
    ...needed.map((name) => `warm cannot be: inputs.${name} is required and not said to be of no use to the start-up`),
  ]
}

export function inputsForStartup({ inputs }: Pick<TemplateSettings, 'inputs'>): string[] {
  return Object.keys(inputs).filter((name) => inputs[name]?.startup !== false)
}

function stepProblems({ start = [], services = [] }: Pick<TemplateSettings, 'start' | 'services'>): string[] {
  const names = [...start, ...services].map(({ name }) => name)
  const again = [...new Set(names.filter((name, at) => names.indexOf(name) !== at))]
  const empty = [...start, ...services].filter(({ argv }) => argv[0] === '')
  return [
    ...again.map((name) => `${name} names two start commands or services`),
    ...empty.map(({ name }) => `${name} has an empty program`),
  ]
}

export function hasStartup({ start = [], services = [] }: Pick<TemplateSettings, 'start' | 'services'>): boolean {
  return start.length + services.length > 0
}

function idlePolicyProblems(policy: string | undefined): string[] {
  const seconds = Number(/^fixed:(\d+)$/.exec(policy ?? '')?.[1] ?? LIMITS.idle.fixed_seconds_min)
  if (seconds >= LIMITS.idle.fixed_seconds_min && seconds <= LIMITS.idle.fixed_seconds_max) return []
  return [`defaults.idle_policy must be between ${LIMITS.idle.fixed_seconds_min} and ${LIMITS.idle.fixed_seconds_max} seconds`]
}

export function isSecret({ kind }: TemplateInput): boolean {
  return kind === 'secret'
}

export function secretInputs({ inputs }: Pick<TemplateSettings, 'inputs'>, which: 'all' | 'required' = 'all'): string[] {
  const secret = Object.entries(inputs).filter(([, input]) => isSecret(input) && (which === 'all' || input.required === true))
  return secret.map(([name]) => name).sort()
}

/** Inputs that are text become environment variables. */
export function textInputs({ inputs }: Pick<TemplateSettings, 'inputs'>): string[] {
  return Object.keys(inputs).filter((name) => inputs[name] !== undefined && !isSecret(inputs[name]))
}
