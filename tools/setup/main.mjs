// What the commands of tools/ share.
import { SettingsError } from './settings.mjs'

/** Runs a command and ends the process as it ended: mistakes of the caller and failures of the host are shown without a stack. */
export async function report(command) {
  // The reader has gone, as after `| head`.
  process.stdout.on('error', (error) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  try {
    const code = await command()
    if (typeof code === 'number') process.exitCode = code
  } catch (error) {
    const known =
      error instanceof SettingsError || error.cause !== undefined || !(error instanceof TypeError || error instanceof ReferenceError)
    process.stderr.write(`${known ? error.message : error.stack}\n`)
    process.exitCode = error instanceof SettingsError ? 2 : 1
  }
}
