import type { Operation } from './schemas.ts'

/** Waits longer than this produce a notice. */
const TELL_AFTER_MS = 2000

/** Explains long calls to the caller, once for each wait. */
export interface Notices {
  begin(): Wait
}

export interface Wait {
  /** Sets the present reason; undefined: none worth a notice. */
  because(text: string | undefined): void
  end(): void
}

export function noticesTo(tell: ((text: string) => void) | null): Notices {
  return { begin: () => startWait(tell) }
}

function startWait(tell: ((text: string) => void) | null): Wait {
  const began_at = performance.now()
  let timer: ReturnType<typeof setTimeout> | undefined
  let reason: string | undefined
  let is_told = false
  const due = () => {
    if (reason === undefined || is_told) return
    is_told = true
    tell?.(reason)
  }
  return {
    because(text) {
      reason = text
      if (text === undefined || is_told || tell === null || timer !== undefined) return
      timer = setTimeout(due, Math.max(0, TELL_AFTER_MS - (performance.now() - began_at)))
      // The timer must not keep an otherwise finished process alive.
      ;(timer as { unref?: () => void }).unref?.()
    },
    end() {
      clearTimeout(timer)
      is_told = true
    },
  }
}

/** Names the scarce resource, where the operation reports it. */
export function capacityNotice({ state, error }: Operation): string | undefined {
  if (state !== 'capacity_pending') return undefined
  const { short, deadline_at } = (error?.details ?? {}) as { short?: unknown; deadline_at?: unknown }
  const resource = Array.isArray(short) && short.length > 0 ? `: ${short.join(' and ')} is short` : ''
  const until = typeof deadline_at === 'string' ? `, until ${deadline_at} at the latest` : ''
  return `Waiting for capacity${resource}${until}`
}
