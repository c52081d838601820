import { detailsOf } from '../../contract/details.ts'
import type { Surface } from '../../contract/errors.ts'
import { validatorOf } from './checks.ts'

type Details = Record<string, unknown>
type Fits = (value: unknown) => boolean

const known = new Map<string, Map<string, Fits>>()

/**
 * Filters the details of a refusal that another service sent: removes declared details with wrong values, and keeps unknown names.
 * @param reason must belong to the code, since the checks of each pair are cached
 */
export function fittingDetails(surface: Surface, code: string, reason: string | null, details: Details): Details {
  const name = `${surface} ${code} ${reason ?? ''}`
  const checks = known.get(name) ?? checksOf(surface, code, reason)
  known.set(name, checks)
  return Object.fromEntries(Object.entries(details).filter(([each, value]) => checks.get(each)?.(value) ?? true))
}

function checksOf(surface: Surface, code: string, reason: string | null): Map<string, Fits> {
  return new Map(Object.entries(detailsOf(surface, code, reason)).map(([name, schema]) => [name, validatorOf(schema)]))
}
