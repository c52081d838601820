export const PARKING_MOVES = ['freeze', 'thaw', 'hibernate', 'wake'] as const
export type ParkingMove = (typeof PARKING_MOVES)[number]

export const EVICTIONS = ['made', 'undone', 'failed'] as const
export type Eviction = (typeof EVICTIONS)[number]

export interface MachineMetrics {
  moved(move: ParkingMove): void
  evicted(outcome: Eviction): void
}
