// `npm run chaos -- --minutes 10 [--seed N]`: runs tests/chaos on real machines.
import { report } from './setup/main.mjs'
import { runPrepared } from './setup/run.mjs'

await report(() => runPrepared('tests/chaos/main.ts'))
