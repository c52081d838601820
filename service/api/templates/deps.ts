import type { Buckets } from '../../http/buckets.ts'
import type { PackageIndex } from './packages/package-index.ts'
import type { PartPermits } from './uploads/places.ts'

export interface TemplateDeps {
  /** null: uploads are not kept. */
  uploads_dir: string | null
  part_places: PartPermits
  /** null: Debian's own mirrors. */
  package_mirror: string | null
  /** null: no mirror is configured. */
  packages: PackageIndex | null
  package_lookups: Buckets
}
