import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { FreeText, strict, Text, Uuid, Enum } from './common.ts'
import { EgressPolicyRequest } from './egress.ts'
import { Service, StartCommand, TemplateSettings } from './template-settings.ts'

export const ARCHITECTURES = ['amd64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]
export const BUILD_ARCHITECTURE: Architecture = 'amd64'

const bytes_max = LIMITS.build.recipe_bytes_max
const User = Text({ minLength: 1, maxLength: 64, description: 'root when absent' })
const Path = (description: string) => Text({ minLength: 1, maxLength: LIMITS.file.path_bytes_max, description })
const Mode = Type.String({ pattern: '^[0-7]{3,4}$', description: 'In octal digits' })
const Env = TemplateSettings.properties.env

/** A string is a script for /bin/sh. A list is a program with its arguments. */
export const RunStep = Type.Object(
  {
    run: Type.Union([
      FreeText({ minLength: 1, maxLength: LIMITS.build.script_bytes_max }),
      Type.Array(FreeText({ minLength: 0, maxLength: LIMITS.startup.word_bytes_max }), { minItems: 1, maxItems: LIMITS.startup.argv_max }),
    ]),
    user: Type.Optional(User),
    cwd: Type.Optional(Path('It is made where it is not there')),
    env: Type.Optional(Env),
    timeout_seconds: Type.Optional(
      Type.Integer({ minimum: 1, maximum: LIMITS.build.step_seconds_max, default: LIMITS.build.step_seconds_default }),
    ),
  },
  { ...strict, title: 'RunStep' },
)
export type RunStep = Static<typeof RunStep>

export const CopyStep = Type.Object(
  {
    copy: Type.Array(Path('In the upload; `.` is all of it. Names may have *, ? and [ ]'), {
      minItems: 1,
      maxItems: LIMITS.build.copy_sources_max,
    }),
    to: Path('An absolute path: a directory where it ends with / or several are copied, else what the one is to be called'),
    user: Type.Optional(User),
    mode: Type.Optional(Mode),
  },
  { ...strict, title: 'CopyStep' },
)
export type CopyStep = Static<typeof CopyStep>

export const RecipeFile = Type.Object(
  {
    path: Path('Absolute'),
    content: Type.Optional(FreeText({ minLength: 0, maxLength: bytes_max })),
    content_base64: Type.Optional(
      Type.String({ pattern: '^[A-Za-z0-9+/]*={0,2}$', maxLength: bytes_max, description: 'Instead of content' }),
    ),
    user: Type.Optional(User),
    mode: Type.Optional(Mode),
  },
  { ...strict, title: 'RecipeFile' },
)
export type RecipeFile = Static<typeof RecipeFile>

export const BUILD_EGRESS_MODES = ['auto', 'allow_all', 'allowlist', 'deny_all'] as const
const hosts = (description: string) =>
  Type.Optional(Type.Array(Text({ minLength: 1, maxLength: LIMITS.egress.host_characters_max }), { description }))

export const BuildEgress = Type.Object(
  {
    mode: Enum(BUILD_EGRESS_MODES, {
      description: 'auto: where Debian packages and those of languages come from, and extra_hosts. allowlist: allow_hosts alone',
    }),
    extra_hosts: hosts('With auto alone'),
    allow_hosts: hosts('With allowlist alone, and then at least one'),
  },
  { ...strict, title: 'BuildEgress' },
)
export type BuildEgress = Static<typeof BuildEgress>

export const Recipe = Type.Object(
  {
    base: Type.Optional(
      Text({
        minLength: 1,
        maxLength: 100,
        description:
          'slug@version of the organization or of the platform; slug: its latest version; upload: with the id of an upload: the root file system that it holds, as a tar or as a tar of an OCI image layout',
      }),
    ),
    architecture: Type.Optional(Enum(ARCHITECTURES)),
    packages: Type.Optional(
      Type.Array(Text({ minLength: 1, maxLength: 200, description: 'A Debian package: name, or name=version' }), {
        description: 'Installed at first, by apt',
      }),
    ),
    languages: Type.Optional(
      Type.Array(
        Type.Object(
          { name: Text({ minLength: 1, maxLength: 50 }), version: Type.Optional(Text({ minLength: 1, maxLength: 50 })) },
          { ...strict, description: 'One of GET /v1/template-languages; without a version its default' },
        ),
      ),
    ),
    files: Type.Optional(Type.Array(RecipeFile, { description: 'Written before the steps' })),
    steps: Type.Optional(Type.Array(Type.Union([RunStep, CopyStep]), { description: 'One after the other' })),
    egress: Type.Optional(BuildEgress),
    env: Type.Optional(Env),
    inputs: Type.Optional(TemplateSettings.properties.inputs),
    start: Type.Optional(Type.Array(StartCommand)),
    services: Type.Optional(Type.Array(Service)),
    warm: TemplateSettings.properties.warm,
    defaults: Type.Optional(
      Type.Partial(TemplateSettings.properties.defaults, {
        ...strict,
        description: "Of an open that does not say otherwise; what is absent is the base's",
      }),
    ),
    ceiling: Type.Optional(Type.Partial(TemplateSettings.properties.ceiling, strict)),
  },
  { ...strict, title: 'Recipe', description: "What is absent of env, inputs, start, services, defaults and ceiling is the base's" },
)
export type Recipe = Static<typeof Recipe>

export const TemplateBuildRequest = Type.Object(
  {
    recipe: Type.Optional(Recipe),
    dockerfile: Type.Optional(FreeText({ minLength: 1, maxLength: bytes_max, description: 'Instead of a recipe' })),
    build_args: Type.Optional(
      Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$' }), FreeText({ minLength: 0, maxLength: 4096 }), strict),
    ),
    upload_id: Type.Optional(Uuid('The tar that copy and COPY take files from')),
    egress_ceiling: Type.Optional(EgressPolicyRequest),
    description: Type.Optional(FreeText({ minLength: 0, maxLength: 4000, description: 'Of the version' })),
    auto_publish: Type.Optional(
      Type.Boolean({ default: false, description: 'Workspaces are opened with the version as soon as it is there' }),
    ),
    project_id: Type.Optional(Uuid('A person says it; a key has its own')),
  },
  { ...strict, title: 'TemplateBuildRequest', description: 'Either a recipe or a dockerfile' },
)
export type TemplateBuildRequest = Static<typeof TemplateBuildRequest>
