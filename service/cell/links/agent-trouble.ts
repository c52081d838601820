/**
 * How talking to an agent went wrong:
 * - unreachable: the call was never sent, or the agent did not accept it as ours; nothing was executed;
 * - cut: it was sent and the connection broke; whether it was executed is not known;
 * - silent: it was sent and no answer came in time; the same uncertainty;
 * - crowded: it was sent and there is no room for its answer; the same uncertainty;
 * - nonsense: what came is not what an agent says. The guest is hostile ground, so this is its owner's affair.
 */
export type TroubleKind = 'unreachable' | 'cut' | 'silent' | 'crowded' | 'nonsense'

export class AgentTrouble extends Error {
  readonly kind: TroubleKind

  constructor(kind: TroubleKind, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.kind = kind
  }
}
