/**
 * The ways in which a call to an agent fails:
 * - unreachable: the call was not sent, or the agent did not accept it as ours; nothing was executed;
 * - cut: the connection broke after the call was sent; the call may have been executed;
 * - silent: no answer came in time; the call may have been executed;
 * - crowded: no buffer budget is left for the answer; the call may have been executed;
 * - nonsense: the answer is invalid. The guest is untrusted, so this is its owner's problem.
 */
export type AgentFailureKind = 'unreachable' | 'cut' | 'silent' | 'crowded' | 'nonsense'

export class AgentFailure extends Error {
  readonly kind: AgentFailureKind

  constructor(kind: AgentFailureKind, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.kind = kind
  }
}
