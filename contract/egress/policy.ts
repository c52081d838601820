import { LIMITS } from '../limits.ts'

export const EGRESS_MODES = ['allow_all', 'allowlist', 'deny_all'] as const
export type EgressMode = (typeof EGRESS_MODES)[number]

/** Lets TCP connections out to the addresses of a name. Normalized: docs/decisions/0134. */
export interface EgressRule {
  /** Lower-case ASCII; `*.` in front stands for exactly one label. */
  host: string
  ports: number[]
  protocols: 'tcp'[]
}

/** What a machine may reach. Rules and cidrs are an allowlist's alone; without any of them it lets nothing out. */
export interface EgressPolicy {
  mode: EgressMode
  rules: EgressRule[]
  /** Canonical; every port of TCP. */
  cidrs: string[]
}

/** As a caller writes it: what may be left out is absent. */
export interface EgressPolicyInput {
  mode: EgressMode
  rules?: { host: string; ports?: number[]; protocols?: 'tcp'[] }[]
  cidrs?: string[]
}

/** App, "Egress policy": what holds where nobody has set anything. */
export const ALLOW_ALL: EgressPolicy = { mode: 'allow_all', rules: [], cidrs: [] }
export const DENY_ALL: EgressPolicy = { mode: 'deny_all', rules: [], cidrs: [] }

export const EGRESS_PORTS_DEFAULT: readonly number[] = [443]

/** Whether a rule's host is meant by the name: `*.` is one label, no more and no less. */
export function hostCovers(host: string, name: string): boolean {
  if (host === name) return true
  return host.startsWith('*.') && !name.startsWith('*.') && name.slice(name.indexOf('.') + 1) === host.slice(2)
}

/** Cut to what one policy may have: it only becomes narrower. */
export function withinLimits({ mode, rules, cidrs }: EgressPolicy): EgressPolicy {
  return { mode, rules: rules.slice(0, LIMITS.egress.rules_max), cidrs: cidrs.slice(0, LIMITS.egress.cidrs_max) }
}
