import type { Operation } from './schemas.ts'

/** A caller that waits for longer than this is told why. */
const TELL_AFTER_MS = 2000

/** Tells the caller, once for each wait, why a call takes long. */
export interface Notices {
  begin(): Wait
}

export interface Wait {
  /** The reason at this moment; undefined: there is none that the caller should know. */
  because(text: string | undefined): void
  end(): void
}

export function noticesTo(tell: ((text: string) => void) | null): Notices {
  return { begin: () => waitTold(tell) }
}

function waitTold(tell: ((text: string) => void) | null): Wait {
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
      // The notice must not keep a process alive that has nothing else to do.
      ;(timer as { unref?: () => void }).unref?.()
    },
    end() {
      clearTimeout(timer)
      is_told = true
    },
  }
}

/** Names the resource that is short, where the operation says it. */
export function capacityNotice({ state, error }: Operation): string | undefined {
  if (state !== 'capacity_pending') return undefined
  const { short, deadline_at } = (error?.details ?? {}) as { short?: unknown; deadline_at?: unknown }
  const resource = Array.isArray(short) && short.length > 0 ? `: ${short.join(' and ')} is short` : ''
  const until = typeof deadline_at === 'string' ? `, until ${deadline_at} at the latest` : ''
  return `Waiting for capacity${resource}${until}`
}
