import type { Layer, LayerList, LayerRequest, LayersDrop, LayersHere } from '../../../contract/internal/host-layers.ts'

export interface LayerHost {
  /**
   * The layer is durable when this returns; the same disk makes the same layer. Refusals: `layer_refused`, `not_found`,
   * `already_running`.
   */
  makeLayer(request: LayerRequest): Promise<Layer>
  /** Lists a layer after the directory `after`; "": from the root. Refusals: `layer_missing`, `layer_refused`. */
  listLayer(layer: string, after: string): Promise<LayerList>
  /** Marks layers as used. A caller does this before it names layers in rows. Refusal: `layer_missing`. */
  keepLayers(layers: readonly string[]): Promise<void>
  layers(): Promise<LayersHere>
  /**
   * Removes layers, except those that machines or checkpoints use, and those used since the listing or within `idle_seconds_min`.
   * @returns the layers that are gone. Refusal: `not_found`, if another process made the listing.
   */
  dropLayers(request: LayersDrop): Promise<string[]>
}
