import type { LayerEntry } from '../../../../contract/internal/host-layers.ts'

export interface LayerDirectory {
  layer: string
  path: string
}

/** `places`: one directory per layer that contributes, topmost first. */
export interface VisibleEntry {
  entry: LayerEntry
  places: LayerDirectory[]
}

/** null: the layer lacks the directory. */
export type Load = (places: readonly LayerDirectory[]) => Promise<(Map<string, LayerEntry> | null)[]>

/** Overlayfs rules: whiteouts, opaque directories and redirects. */
export class Overlay {
  /** Topmost first. */
  private readonly layers: readonly string[]
  private readonly load: Load

  /** @param layers lowest first. */
  constructor(layers: readonly string[], load: Load) {
    this.layers = [...layers].reverse()
    this.load = load
  }

  root(): LayerDirectory[] {
    return this.layers.map((layer) => ({ layer, path: '/' }))
  }

  /** Sorted by name. */
  async children(places: readonly LayerDirectory[]): Promise<Map<string, VisibleEntry>> {
    const loaded = await this.load(places)
    const names = new Set(loaded.flatMap((entries) => [...(entries?.keys() ?? [])]))
    const seen = new Map<string, VisibleEntry>()
    for (const name of [...names].sort()) {
      const one = await this.child(places, loaded, name)
      if (one !== null) seen.set(name, one)
    }
    return seen
  }

  async lookUp(places: readonly LayerDirectory[], name: string): Promise<VisibleEntry | null> {
    return this.child(places, await this.load(places), name)
  }

  private async child(
    places: readonly LayerDirectory[],
    loaded: readonly (Map<string, LayerEntry> | null)[],
    name: string,
  ): Promise<VisibleEntry | null> {
    let seen: VisibleEntry | null = null
    let sought = name
    for (const [at, place] of places.entries()) {
      const entry = loaded[at]?.get(sought)
      if (entry === undefined) continue
      if (entry.type !== 'directory') return seen ?? (entry.type === 'whiteout' ? null : { entry, places: [] })
      seen ??= { entry, places: [] }
      seen.places.push({ layer: place.layer, path: join(place.path, sought) })
      if (entry.opaque === true) return seen
      if (entry.redirect?.startsWith('/')) {
        seen.places.push(...(await this.below(place.layer, entry.redirect)))
        return seen
      }
      sought = entry.redirect ?? sought
    }
    return seen
  }

  /** Searches each layer by the whole path, as overlayfs does. */
  private async below(layer: string, moved_from: string): Promise<LayerDirectory[]> {
    const found: LayerDirectory[] = []
    let sought = moved_from
    for (const lower of this.layers.slice(this.layers.indexOf(layer) + 1)) {
      const walked = await this.walk(lower, sought)
      if (walked.is_directory) found.push({ layer: lower, path: sought })
      if (walked.ends) return found
      sought = walked.sought
    }
    return found
  }

  /** `ends`: lower layers are hidden. `sought`: the path to search in lower layers. */
  private async walk(layer: string, path: string): Promise<{ is_directory: boolean; ends: boolean; sought: string }> {
    const names = path.split('/').slice(1)
    let [at, sought, ends] = ['/', path, false]
    for (const [depth, name] of names.entries()) {
      const [entries] = await this.load([{ layer, path: at }])
      const entry = entries?.get(name)
      if (entry === undefined) return { is_directory: false, ends, sought }
      if (entry.type !== 'directory') return { is_directory: false, ends: true, sought }
      at = join(at, name)
      if (entry.opaque === true) ends = true
      if (entry.redirect !== undefined) sought = redirected(sought, depth, names.length, entry.redirect)
    }
    return { is_directory: true, ends, sought }
  }
}

/** @returns the path under which lower layers are searched. */
function redirected(path: string, depth: number, length: number, redirect: string): string {
  const names = path.split('/').slice(1)
  const rest = names.slice(names.length - (length - 1 - depth))
  if (redirect.startsWith('/')) return [redirect, ...rest].join('/')
  const before = names.slice(0, names.length - rest.length - 1)
  return `/${[...before, redirect, ...rest].join('/')}`
}

export function join(directory: string, name: string): string {
  return directory === '/' ? `/${name}` : `${directory}/${name}`
}

export function areSame(one: readonly LayerDirectory[], other: readonly LayerDirectory[]): boolean {
  return one.length === other.length && one.every(({ layer, path }, at) => layer === other[at]?.layer && path === other[at].path)
}
