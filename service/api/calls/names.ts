import { fail } from '../../lib/fail.ts'

const UNIQUE_VIOLATION = '23505'

export async function unlessTaken<Made>(making: Promise<Made>): Promise<Made> {
  try {
    return await making
  } catch (error) {
    if ((error as { code?: unknown }).code === UNIQUE_VIOLATION) throw fail('conflict', 'name_taken', 'The slug is taken')
    throw error
  }
}
