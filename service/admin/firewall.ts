import type { Output } from './command.ts'
import { firewallsOf, type DoctorPaths } from './doctor-facts.ts'

export async function firewall(places: DoctorPaths, output: Output): Promise<number> {
  const found = await firewallsOf(places)
  if (found === null) {
    output.note('hostd does not answer: start Berth with `npm start`, and ask again.')
    return 1
  }
  if (found.length === 0) output.line('# No firewall of this computer has to be changed for machines.')
  for (const { name, state, why, recipe } of found) {
    output.line(`# ${name}: ${says(state, why)}`)
    for (const command of recipe) output.line(command)
  }
  return 0
}

function says(state: 'open' | 'closed' | 'manual', why: string | undefined): string {
  switch (state) {
    case 'open':
      return 'Berth has put its rules in. By hand, with firewall set to manual, this does the same:'
    case 'closed':
      return `Berth could not put its rules in: ${why ?? 'no reason is known'}. By hand:`
    case 'manual':
      return 'firewall is set to manual. By hand:'
  }
}
