import { createHash } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { normalPolicy, policyIssues } from '../../../contract/egress/check.ts'
import type { EgressPolicy, EgressPolicyInput } from '../../../contract/egress/policy.ts'
import { LIMITS } from '../../../contract/limits.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import { checkSettings } from '../template-settings.ts'

const FORMAT = 'berth-template'
const FORMAT_VERSION = 1
export const MANIFEST_BYTES_MAX = 8 << 20
const strict = { additionalProperties: false }

/** The manifest's name in the tar contains the digest of its bytes. */
const Shape = Type.Object(
  {
    format: Type.Literal(FORMAT),
    format_version: Type.Literal(FORMAT_VERSION),
    slug: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }),
    version: Type.Integer({ minimum: 1 }),
    architecture: Type.String(),
    layered: Type.Boolean(),
    settings: Type.Unknown(),
    egress: Type.Unknown(),
    layers: Type.Array(
      Type.Object(
        {
          sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
          size_bytes: Type.Integer({ minimum: 0, maximum: LIMITS.template_build.layer_bytes_max * 2 }),
        },
        strict,
      ),
      { minItems: 1, maxItems: 32 },
    ),
  },
  strict,
)

export interface Manifest extends Omit<Static<typeof Shape>, 'settings' | 'egress' | 'format' | 'format_version'> {
  settings: TemplateSettings
  egress: EgressPolicy | null
}

export function manifestText(manifest: Manifest): string {
  return `${JSON.stringify({ format: FORMAT, format_version: FORMAT_VERSION, ...manifest }, null, 2)}\n`
}

export function manifestName(bytes: Buffer): string {
  return `manifest-${createHash('sha256').update(bytes).digest('hex')}.json`
}

export function parseManifest(name: string, bytes: Buffer): Manifest {
  if (name !== manifestName(bytes)) throw new Error('its manifest does not have the digest of its name')
  const value: unknown = JSON.parse(bytes.toString())
  const { format, format_version } = value as { format?: unknown; format_version?: unknown }
  if (format === FORMAT && format_version !== FORMAT_VERSION)
    throw new Error(`its format has the version ${String(format_version)}, and ${FORMAT_VERSION} is known`)
  const [error] = Value.Errors(Shape, value)
  if (error !== undefined) throw new Error(`its manifest is not valid: ${error.instancePath || '/'} ${error.message}`)
  const { format: _, format_version: __, settings, egress, ...manifest } = value as Static<typeof Shape>
  return { ...manifest, settings: checkSettings(settings, 'the file'), egress: parseEgress(egress) }
}

function parseEgress(value: unknown): EgressPolicy | null {
  if (value === null) return null
  const issues = policyIssues(value)
  if (issues.length > 0) throw new Error(`its egress is no policy: ${issues.map(({ path, message }) => `${path} ${message}`).join(', ')}`)
  return normalPolicy(value as EgressPolicyInput)
}

/** `amd64` is Debian's name. */
export function ownArchitecture(): string {
  return process.arch === 'x64' ? 'amd64' : process.arch
}
