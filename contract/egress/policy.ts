import { LIMITS } from '../limits.ts'

export const EGRESS_MODES = ['allow_all', 'allowlist', 'deny_all'] as const
export type EgressMode = (typeof EGRESS_MODES)[number]

/** A rule after normalization (docs/decisions/egress.md). */
export interface EgressRule {
  /** ASCII. A leading `*.` matches exactly one label. */
  host: string
  ports: number[]
  protocols: 'tcp'[]
}

/** An allowlist without rules and networks allows nothing. */
export interface EgressPolicy {
  mode: EgressMode
  rules: EgressRule[]
  /** Canonical form. All TCP ports are allowed. */
  cidrs: string[]
}

export interface EgressPolicyInput {
  mode: EgressMode
  rules?: { host: string; ports?: number[]; protocols?: 'tcp'[] }[]
  cidrs?: string[]
}

/** See the specification (App, "Egress policy"). */
export const ALLOW_ALL: EgressPolicy = { mode: 'allow_all', rules: [], cidrs: [] }
export const DENY_ALL: EgressPolicy = { mode: 'deny_all', rules: [], cidrs: [] }

export const EGRESS_PORTS_DEFAULT: readonly number[] = [443]

export function hostCovers(host: string, name: string): boolean {
  if (host === name) return true
  return host.startsWith('*.') && !name.startsWith('*.') && name.slice(name.indexOf('.') + 1) === host.slice(2)
}

/** Truncation to the limits only narrows a policy. */
export function withinLimits({ mode, rules, cidrs }: EgressPolicy): EgressPolicy {
  return { mode, rules: rules.slice(0, LIMITS.egress.rules_max), cidrs: cidrs.slice(0, LIMITS.egress.cidrs_max) }
}
