// `npm run failpoints -- [words] [--modes kill,kill_all,stop,throw]`: runs tests/chaos/failpoints.ts on real machines.
import { report } from './setup/main.mjs'
import { runPrepared } from './setup/run.mjs'

await report(() => runPrepared('tests/chaos/failpoints.ts'))
