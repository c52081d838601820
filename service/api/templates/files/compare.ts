import type { LayerEntry } from '../../../../contract/internal/host-layers.ts'
import { areSame, join, type Overlay, type LayerDirectory, type VisibleEntry } from './overlay.ts'
import { bytesOf } from './position.ts'

export interface Bounds {
  directories: number
  position_bytes: number
}

export type Step =
  | { kind: 'difference'; position: number[]; path: string; before: LayerEntry | null; after: LayerEntry | null }
  /** The walk stops here and can continue at this position. */
  | { kind: 'bound'; position: number[] }

interface Walk {
  before: Overlay
  after: Overlay
  bounds: Bounds
  directories: number
}

/** Skips directories whose layers are identical, so the cost depends only on the changes. */
export function differences(before: Overlay, after: Overlay, from: readonly number[], bounds: Bounds): AsyncGenerator<Step> {
  return walk({ before, after, bounds, directories: 0 }, { path: '/', position: [], places: [before.root(), after.root()] }, from)
}

interface Both {
  path: string
  position: number[]
  /** Empty for a tree that lacks the directory. */
  places: [LayerDirectory[], LayerDirectory[]]
}

async function* walk(state: Walk, { path, position, places }: Both, from: readonly number[]): AsyncGenerator<Step> {
  if (areSame(...places)) return
  state.directories += 1
  const [olds, news] = [await state.before.children(places[0]), await state.after.children(places[1])]
  const names = [...new Set([...olds.keys(), ...news.keys()])].sort()
  const [first = 0, ...deeper] = from
  for (const [number, name] of names.entries()) {
    if (number < first) continue
    const is_told = from.length > 0 && number === first
    const here = { path: join(path, name), position: [...position, number], places: placesOf(olds.get(name), news.get(name)) }
    const too_deep = bytesOf(here.position).length >= state.bounds.position_bytes
    const [old, fresh] = [olds.get(name)?.entry ?? null, news.get(name)?.entry ?? null]
    const differs = !isSame(old, fresh) || (too_deep && !areSame(...here.places))
    if (!is_told && differs) yield { kind: 'difference', position: here.position, path: here.path, before: old, after: fresh }
    if (too_deep) continue
    if (state.directories >= state.bounds.directories) {
      yield { kind: 'bound', position: here.position }
      return
    }
    yield* walk(state, here, is_told ? deeper : [])
  }
}

function placesOf(old: VisibleEntry | undefined, fresh: VisibleEntry | undefined): [LayerDirectory[], LayerDirectory[]] {
  return [old?.places ?? [], fresh?.places ?? []]
}

function isSame(one: LayerEntry | null, other: LayerEntry | null): boolean {
  if (one === null || other === null) return one === other
  const is_file = one.type === 'file'
  return (
    one.type === other.type &&
    one.mode === other.mode &&
    one.uid === other.uid &&
    one.gid === other.gid &&
    one.target === other.target &&
    (!is_file || (one.size_bytes === other.size_bytes && one.sha256 === other.sha256))
  )
}
