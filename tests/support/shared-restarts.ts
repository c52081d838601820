export interface SharedRestarts<Name, How> {
  /** Resolves when it serves again. */
  restart(name: Name, how: How): Promise<void>
  /** Those that go on. */
  going: ReadonlyMap<Name, Promise<void>>
}

/** One restart at a time of each process: whoever asks meanwhile gets the same. After one that failed, whoever asks begins another. */
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
