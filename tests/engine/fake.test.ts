import { createFakeHost } from '../../service/cell/links/fake/host.ts'
import { conformance } from './conformance.ts'

conformance('fake', async () => {
  const host = createFakeHost()
  return {
    host,
    layers: ['a'.repeat(64)],
    async guest(machine) {
      const guest = host.guest(machine.subject)
      return {
        count: async () => guest.count(),
        readFile: async (path) => guest.files.get(path) ?? null,
        writeFile: async (path, text) => void guest.files.set(path, text),
        readMemory: async () => guest.memory.get('canary') ?? null,
        writeMemory: async (text) => void guest.memory.set('canary', text),
      }
    },
    kill: async (machine) => host.kill(machine.subject),
    close: () => host.close(),
  }
})
