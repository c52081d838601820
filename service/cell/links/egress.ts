import type { EgressMode } from '../../../contract/egress/policy.ts'
import type { DENIED_PROTOCOLS } from '../../../contract/schemas/egress.ts'
import type { Fence } from './hostd.ts'

// The TypeScript side of machine/internal/wire/egress.go: the same words, spelled the same.

/** What a machine may reach. Rules and cidrs are an allowlist's alone. */
export interface HostEgress {
  /** What an acknowledgement names. */
  revision: string
  mode: EgressMode
  rules: { host: string; ports: number[] }[]
  cidrs: string[]
  /** Ports to which connections are led through the proxy that puts secrets in; absent: none. */
  secret_ports?: number[]
}

/** What a machine's packets meet. failed: the host could not put its rules in again, and lets nothing more out than before. */
export interface EgressInForce {
  revision: string
  state: 'enforced' | 'failed'
}

export interface SetEgressRequest extends Fence {
  egress: HostEgress
}

/** What a machine asked for and its policy refused. Counts go on as long as `first_at` is the same. */
export interface HostDenial {
  name: string | null
  address: string | null
  port: number
  protocol: (typeof DENIED_PROTOCOLS)[number]
  count: number
  first_at: string
  last_at: string
}
