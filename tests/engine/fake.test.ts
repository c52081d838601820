import { createFakeHost } from '../../service/cell/host/fake/host.ts'
import { conformance } from './conformance.ts'

conformance('fake', async () => {
  const host = createFakeHost()
  return {
    host,
    layers: ['a'.repeat(64)],
    async guest(machine) {
      const guest = host.guest(machine.subject)
      // The fake agent's file names are relative to /home/user.
      const named = (path: string) => path.replace(/^\/home\/user\//, '')
      return {
        count: async () => guest.count(),
        readFile: async (path) => guest.files.get(named(path)) ?? null,
        writeFile: async (path, text) => void guest.files.set(named(path), text),
        readMemory: async () => guest.memory.get('canary') ?? null,
        writeMemory: async (text) => void guest.memory.set('canary', text),
      }
    },
    kill: async (machine) => host.kill(machine.subject),
    close: () => host.close(),
  }
})
