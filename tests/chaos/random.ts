import { generatorOf } from '../support/seed.ts'

export interface Random {
  seed: number
  next(): number
  between(min: number, max: number): number
  pick<T>(list: readonly T[]): T
  weighed<N extends string>(weights: Record<N, number>): N
}

export function createRandom(seed: number): Random {
  const next = generatorOf(seed)
  const pick = <T>(list: readonly T[]): T => {
    const found = list[Math.floor(next() * list.length)]
    if (found === undefined) throw new Error('There is nothing to pick from')
    return found
  }
  return {
    seed,
    next,
    pick,
    between: (min, max) => min + next() * (max - min),
    weighed(weights) {
      const entries = Object.entries(weights) as [keyof typeof weights, number][]
      let rest = next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [name, weight] of entries) if ((rest -= weight) < 0) return name
      return pick(entries)[0]
    },
  }
}
