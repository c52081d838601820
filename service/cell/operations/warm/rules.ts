import { AGENT_PROTOCOLS } from '../../../../contract/internal/agent.ts'
import { inputsForStartup, type TemplateSettings } from '../../../../contract/schemas/template-settings.ts'
import type { Resources } from '../../../db/column-types.ts'

export interface WarmCandidate {
  ownership_epoch: number
  purpose: string
  disk_layout: 'legacy' | 'layered'
  ceilings: Resources
  volumes: readonly object[]
  inputs: Readonly<Record<string, string>>
  secrets: readonly string[]
  settings: Pick<TemplateSettings, 'inputs'>
}

/** A saved machine that has started up, on this computer. */
export interface Capture {
  id: string
  state: 'wanted' | 'making' | 'ready' | 'failed'
  checkpoint_id: string | null
  engine: string | null
  agent_protocol: number | null
  resources: Resources | null
}

export type Cold = 'not_new' | 'purpose' | 'disk_layout' | 'volumes' | 'inputs' | 'secrets'

/** The reason why a workspace must start cold. null: a machine that started up before the workspace existed is as good as its own. */
export function whyCold(one: WarmCandidate): Cold | null {
  const needed = new Set(inputsForStartup(one.settings))
  if (one.ownership_epoch !== 0) return 'not_new' // an open after a reset starts blank
  if (one.purpose !== 'standard') return 'purpose' // a test instance shows what a cold start does
  if (one.disk_layout !== 'layered') return 'disk_layout'
  if (one.volumes.length > 0) return 'volumes'
  if ([...needed].some((name) => one.inputs[name] !== one.settings.inputs[name]?.default)) return 'inputs'
  const declared = new Set(Object.keys(one.settings.inputs))
  if (one.secrets.some((name) => needed.has(name) || !declared.has(name))) return 'secrets'
  return null
}

export type Fit = 'fits' | 'smaller' | 'stale' | 'missing'

/** `stale`: made for another engine or agent, so the capture is made again. */
export function fitOf(capture: Capture | null, { ceilings }: Pick<WarmCandidate, 'ceilings'>, engine: string | null): Fit {
  if (capture?.state !== 'ready' || capture.checkpoint_id === null || capture.resources === null) return 'missing'
  if (capture.engine !== engine || capture.agent_protocol !== AGENT_PROTOCOLS.current) return 'stale'
  const { memory_mib, disk_gib } = capture.resources
  return ceilings.memory_mib < memory_mib || ceilings.disk_gib < disk_gib ? 'smaller' : 'fits'
}
