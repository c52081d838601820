import type { EgressPolicy } from '../../../../contract/egress/policy.ts'
import type { TemplateSettings } from '../../../../contract/schemas/template-settings.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { capturedLayer } from '../captured-layer.ts'
import { operationError, Refused } from '../errors.ts'
import { askForBuild, type BuildWork, type Made } from './ask.ts'
import { readCapture } from './store.ts'

/** The content of `template_builds.spec`. */
export interface SaveSpec {
  workspace_id: string
  /** null: use the checkpoint of the capture. */
  checkpoint_id: string | null
  /** The layers of the workspace's template version. */
  layers: string[]
  settings: TemplateSettings
  egress: EgressPolicy | null
  description: string | null
  auto_publish: boolean
  /** Paths whose findings do not prevent publishing. */
  acknowledged: string[]
}

export async function saveAsTemplate(work: BuildWork): Promise<Made> {
  const { build, cell } = work
  const { workspace_id, layers, acknowledged, settings, egress, description, auto_publish } = build.spec as SaveSpec // written by the api
  const checkpoint_id = await captured(work)
  await work.log('The files are captured.\n')
  await failpoint('template_build.B2')
  const { request, layersWith } = capturedLayer({ workspace_id, checkpoint_id, layers })
  const layer = await askForBuild(work, 'layer', (fence) => cell.host.makeLayer({ ...fence, ...request, scan: true }))
  await work.log(`A layer of ${layer.entries} entries and ${layer.size_bytes} bytes: ${layer.digest}\n`)
  const findings = layer.findings.filter(({ path }) => !acknowledged.includes(path))
  for (const { path, rule, line } of findings) await work.log(`${path}:${line} looks like a secret: ${rule}\n`)
  return { layered: true, layers: layersWith(layer.digest), settings, egress, description, auto_publish, findings }
}

async function captured({ cell, build }: BuildWork): Promise<string> {
  const { checkpoint_id } = build.spec as SaveSpec
  if (checkpoint_id !== null) return checkpoint_id
  const capture = build.capture_operation_id === null ? null : await readCapture(cell.db, build.capture_operation_id)
  if (capture?.checkpoint_id) return capture.checkpoint_id
  const error = capture?.error ?? operationError('checkpoint_failed', 'The files were not captured')
  throw new Refused({ ...error, details: { ...error.details } })
}
