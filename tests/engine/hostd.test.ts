import { conformance } from './conformance.ts'
import { openRealHost } from './real-host.ts'

conformance('hostd and runsc', openRealHost)
