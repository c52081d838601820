/** Kinds of the specification (App, "Operation"), and Berth’s own. */
export const OPERATION_KINDS = [
  'open',
  'suspend',
  'resume',
  'fork',
  'snapshot',
  'restore',
  'adopt',
  'delete',
  'reset',
  'layer_snapshot',
  'volume_create',
  'volume_delete',
  'volume_attach',
  'volume_detach',
  'template_build',
  'move',
] as const
export type OperationKind = (typeof OPERATION_KINDS)[number]

export const OPERATION_SUBJECTS = ['workspace', 'volume', 'template_build', 'execution', 'organization'] as const
export type OperationSubject = (typeof OPERATION_SUBJECTS)[number]

export const OPERATION_STATES = ['queued', 'capacity_pending', 'running', 'succeeded', 'failed', 'canceled'] as const
export type OperationState = (typeof OPERATION_STATES)[number]

const TERMINAL: Record<OperationState, boolean> = {
  queued: false,
  capacity_pending: false,
  running: false,
  succeeded: true,
  failed: true,
  canceled: true,
}

export function isTerminal(state: OperationState): boolean {
  return TERMINAL[state]
}
