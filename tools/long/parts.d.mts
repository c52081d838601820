export const PART_MINUTES: number
export const SUITE_PART_VARIABLE: string
