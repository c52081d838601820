export interface SharedRestarts<Name, How> {
  restart(name: Name, how: How): Promise<void>
  going: ReadonlyMap<Name, Promise<void>>
}

/** Concurrent callers share a restart. After a failed restart, the next call starts another. */
export function sharedRestarts<Name, How>(again: (name: Name, how: How) => Promise<void>): SharedRestarts<Name, How> {
  const going = new Map<Name, Promise<void>>()
  return {
    going,
    restart(name, how) {
      const begun = going.get(name) ?? again(name, how).finally(() => going.delete(name))
      going.set(name, begun)
      return begun
    },
  }
}
