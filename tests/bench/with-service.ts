import { createClient, type Client } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'
import { BENCH_SETTINGS } from './settings.ts'

export async function withService(
  settings: Record<string, unknown>,
  work: (service: Service, client: Client) => Promise<void>,
): Promise<void> {
  const service = await startService({ settings: { ...BENCH_SETTINGS, ...settings } })
  try {
    await work(service, createClient(service.base_url, service.api_key))
  } finally {
    await service.stop()
  }
}
