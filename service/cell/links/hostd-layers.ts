import type { ScanFinding } from '../../../contract/schemas/scan-findings.ts'
import type { LayerEntry } from '../../core/layer-lists/layer-entry.ts'
import type { Fence } from './hostd.ts'
import type { Subject } from './subject.ts'

/** machine/internal/wire/layer.go. The caller speaks for what the layer is made for; the disk may be another subject's. */
export interface LayerRequest extends Fence {
  /** The checkpoint whose disk it is. */
  of?: { subject: Subject; checkpoint_id: string }
  /** A disk of the subject's own instead, whose machine has ended, with the layers below it. */
  disk?: string
  layers?: readonly string[]
  /** A directory of such a disk that becomes the layer's root, absolute. `not_found`: it is none. */
  root?: string
  /** All that a machine on the disk would see: it stands for the layers below, too. */
  whole?: boolean
  /** Absolute paths: one that ends with `/` is all that is in that directory, `*` any name. */
  drop?: readonly string[]
  /** Looks for what looks like a secret. */
  scan?: boolean
  bytes_max: number
  entries_max: number
}

/** A piece of what a layer holds by itself: it goes on after its last directory. */
export interface LayerList {
  directories: { path: string; entries: LayerEntry[] }[]
  done: boolean
}

/** One look at the host's layers. */
export interface LayersHere {
  /** Names the look, for dropLayers. */
  listing: string
  layers: { digest: string; size_bytes: number; idle_seconds: number }[]
}

export interface LayersDrop {
  /** The look after which it was found out that nothing names them. */
  listing: string
  layers: readonly string[]
  idle_seconds_min: number
}

export interface Layer {
  /** SHA-256 in hex: what machines are started with. */
  digest: string
  size_bytes: number
  entries: number
  /** Where something looks like a secret; none where it was not asked for. */
  findings: ScanFinding[]
}

/** What the machine host does with layers. */
export interface LayerHost {
  /** Durable in the host's layers; the same disk makes the same. `layer_refused`, `not_found`, `already_running`. */
  makeLayer(request: LayerRequest): Promise<Layer>
  /** What lies in a layer, from the directory after `after` on; "": from the root. `layer_missing`, `layer_refused`. */
  listLayer(layer: string, after: string): Promise<LayerList>
  /** Whoever is about to give layers a name in the rows asks for them first. `layer_missing`. */
  keepLayers(layers: readonly string[]): Promise<void>
  layers(): Promise<LayersHere>
  /**
   * Removes them, but those that machines or checkpoints stand on, or that somebody has asked for since the look or within so many seconds.
   * @returns those that are not there, or not any more. `not_found`: another process has made the look.
   */
  dropLayers(request: LayersDrop): Promise<string[]>
}
