import type { ScanFinding } from '../../../contract/schemas/scan-findings.ts'
import type { LayerEntry } from '../../core/templates/layer-lists/layer-entry.ts'
import type { CommandHeader } from './hostd.ts'
import type { Subject } from './subject.ts'

/** machine/internal/wire/layer.go. The header names the subject that the layer is for; the disk may be another's. */
export interface LayerRequest extends CommandHeader {
  of?: { subject: Subject; checkpoint_id: string }
  /** Or a disk of the subject itself, whose machine has ended, with the layers below it. */
  disk?: string
  layers?: readonly string[]
  /** The directory of the disk that becomes the layer's root, absolute. `not_found`: it is no directory. */
  root?: string
  /** Flattens the layers below into the new one. */
  whole?: boolean
  /** Absolute paths to leave out. A trailing `/` means the content of that directory, `*` any name. */
  drop?: readonly string[]
  scan?: boolean
  bytes_max: number
  entries_max: number
}

/** One page of a layer's own content. The next page starts after its last directory. */
export interface LayerList {
  directories: { path: string; entries: LayerEntry[] }[]
  done: boolean
}

export interface LayersHere {
  listing: string
  layers: { digest: string; size_bytes: number; idle_seconds: number }[]
}

export interface LayersDrop {
  /** The listing on which the decision to drop is based. */
  listing: string
  layers: readonly string[]
  idle_seconds_min: number
}

export interface Layer {
  /** SHA-256 in hex; names the layer in start requests. */
  digest: string
  size_bytes: number
  entries: number
  /** Possible secrets; empty without `scan`. */
  findings: ScanFinding[]
}

export interface LayerHost {
  /** Durable when it returns; the same disk makes the same layer. `layer_refused`, `not_found`, `already_running`. */
  makeLayer(request: LayerRequest): Promise<Layer>
  /** Lists a layer after the directory `after`; "": from the root. `layer_missing`, `layer_refused`. */
  listLayer(layer: string, after: string): Promise<LayerList>
  /** Marks layers as used. A caller does this before it names layers in rows. `layer_missing`. */
  keepLayers(layers: readonly string[]): Promise<void>
  layers(): Promise<LayersHere>
  /**
   * Removes layers, except those that machines or checkpoints use, and those used since the listing or within `idle_seconds_min`.
   * @returns the layers that are gone. `not_found`: another process made the listing.
   */
  dropLayers(request: LayersDrop): Promise<string[]>
}
