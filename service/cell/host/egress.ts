import type { EgressMode } from '../../../contract/egress/policy.ts'
import type { DENIED_PROTOCOLS } from '../../../contract/schemas/egress.ts'
import type { CommandHeader } from './hostd.ts'

// The TypeScript side of machine/internal/wire/egress.go, with the same names.

export interface HostEgress {
  revision: string
  mode: EgressMode
  rules: { host: string; ports: number[] }[]
  cidrs: string[]
  /** Connections to these ports are redirected to the proxy that injects secrets; absent: none. */
  secret_ports?: number[]
}

/** The policy that the host enforces. failed: the host could not reapply its rules, and allows nothing beyond them. */
export interface EgressInForce {
  revision: string
  state: 'enforced' | 'failed'
}

export interface SetEgressRequest extends CommandHeader {
  egress: HostEgress
}

/** Connections that a policy denied. The count continues while `first_at` stays the same. */
export interface HostDenial {
  name: string | null
  address: string | null
  port: number
  protocol: (typeof DENIED_PROTOCOLS)[number]
  count: number
  first_at: string
  last_at: string
}
