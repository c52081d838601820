import type { EgressPolicy } from '../../../../contract/egress/policy.ts'

const SHOWN_MAX = 5

/** Names what the policy allows, because a failed download looks like many other faults. */
export function reachOf({ mode, rules, cidrs }: EgressPolicy): string {
  if (mode === 'allow_all') return 'no policy keeps it from any address'
  const allowed = mode === 'deny_all' ? [] : [...rules.map(({ host }) => host), ...cidrs]
  if (allowed.length === 0) return 'its policy lets it reach nothing outside'
  const more = allowed.length > SHOWN_MAX ? ` and ${allowed.length - SHOWN_MAX} more` : ''
  return `its policy lets it reach only ${allowed.slice(0, SHOWN_MAX).join(', ')}${more}`
}
