export const RECOVERIES = [
  'unpaused',
  'connected',
  'settled',
  'fork_ended',
  'machine_stopped',
  'files_deleted',
  'workspace_deleted',
  'subject_deleted',
  'volume_deleted',
  'holds_dropped',
  'captures_let_go',
  'attachments_settled',
  'followed',
  'quarantined',
] as const
export type Recovery = (typeof RECOVERIES)[number]

export interface ReconcileMetrics {
  recovered(what: Recovery): void
  died(reason: string): void
}
