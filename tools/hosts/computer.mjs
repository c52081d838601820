// Runs a computer in QEMU, emulated if /dev/kvm does not work. The computer reports events as lines on a serial port.
import { spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const MEMORY_MIB = 6144
const PROCESSORS = 2
/** Boots are repeated, because the kernel sometimes panics under emulation. */
const BOOTS_MAX = 6
const SILENT_MS = 20 * 60_000
const LOOK_MS = 500
const KVM_PROBE_MS = 15_000

const KVM = ['-accel', 'kvm', '-cpu', 'host']
const EMULATED = ['-accel', 'tcg,thread=multi', '-cpu', 'max']

/** Runs until the computer prints `{"end":true}`, also across its restarts. `shares` maps names to read-only folders. */
export async function runComputer({ work, image, shares, command_line, minutes, said, log }) {
  const accelerator = (await kvmWorks(image, work)) ? KVM : EMULATED
  const deadline_ms = performance.now() + minutes * 60_000
  let unplanned = 0
  for (let boot = 1; ; boot += 1) {
    const report = join(work, `report-${boot}`)
    const serial = join(work, `serial-${boot}.log`)
    const outcome = await once({ image, shares, command_line, report, serial, accelerator, deadline_ms, said })
    if (outcome.end) return
    if (performance.now() > deadline_ms) throw new Error(`it was not through in ${minutes} minutes`)
    if (outcome.restarts) continue
    unplanned += 1
    if (unplanned === BOOTS_MAX) throw new Error(`it came to nothing ${BOOTS_MAX} times; the console: ${join(work, `serial-${boot}.log`)}`)
    log(`  the computer ${outcome.why}; it is started again`)
  }
}

async function once({ image, shares, command_line, report, serial, accelerator, deadline_ms, said }) {
  writeFileSync(report, '')
  const child = spawn('qemu-system-x86_64', argumentsOf({ image, shares, command_line, report, serial, accelerator }), {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (complaint += text))
  const ended = new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', resolve)
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const reader = readerOf(report, said)
  let why = 'ended'
  let gone = false
  void ended.then(() => (gone = true)).catch(() => (gone = true))
  let [heard_ms, size] = [performance.now(), 0]
  while (!gone) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    reader.read()
    const now = statSync(report).size + (existsSync(serial) ? statSync(serial).size : 0)
    if (now !== size) [heard_ms, size] = [performance.now(), now]
    if (reader.end) break
    if (performance.now() > deadline_ms || performance.now() - heard_ms > SILENT_MS) {
      why = 'said nothing any more'
      break
    }
  }
  kill()
  await ended
  process.off('exit', kill)
  reader.read()
  if (complaint.includes('qemu-system') && size === 0) throw new Error(complaint)
  return { end: reader.end, restarts: reader.restarts, why: readFileSync(serial, 'utf8').includes('Kernel panic') ? 'panicked' : why }
}

function argumentsOf({ image, shares, command_line, report, serial, accelerator }) {
  const kernel = `root=/dev/vda rw console=ttyS0 panic=-1 ${command_line}`
  const shared = Object.entries(shares).flatMap(([name, path]) => [
    '-fsdev',
    `local,id=${name},path=${path},security_model=none,readonly=on,multidevs=remap`,
    '-device',
    `virtio-9p-pci,fsdev=${name},mount_tag=${name}`,
  ])
  return [
    ...['-machine', 'q35', ...accelerator],
    ...['-smp', String(PROCESSORS), '-m', String(MEMORY_MIB), '-nodefaults', '-no-reboot', '-display', 'none'],
    ...['-kernel', image.kernel, '-initrd', image.initrd, '-append', kernel],
    ...['-drive', `file=${image.disk},if=virtio,format=raw,cache=unsafe`, '-device', 'virtio-rng-pci'],
    ...['-serial', `file:${serial}`, '-device', 'virtio-serial-pci', '-chardev', `file,id=report,path=${report}`],
    ...['-device', 'virtserialport,chardev=report,name=berth.report', ...shared],
  ]
}

/** Tries KVM, because /dev/kvm may exist without working, for instance in a virtual machine. */
async function kvmWorks({ kernel }, work) {
  if (!existsSync('/dev/kvm')) return false
  const serial = join(work, 'kvm-probe.log')
  const args = ['-machine', 'q35', ...KVM, '-m', '512', '-nodefaults', '-no-reboot', '-display', 'none', '-kernel', kernel]
  const child = spawn('qemu-system-x86_64', [...args, '-append', 'console=ttyS0 panic=-1', '-serial', `file:${serial}`], {
    stdio: 'ignore',
  })
  const ended = new Promise((resolve) => child.once('close', resolve))
  const timer = setTimeout(() => child.kill('SIGKILL'), KVM_PROBE_MS)
  await ended
  clearTimeout(timer)
  return existsSync(serial) && readFileSync(serial, 'utf8').includes('Linux version')
}

function readerOf(path, said) {
  const state = { end: false, restarts: false }
  let [offset, rest] = [0, '']
  return Object.assign(state, {
    read() {
      const file = openSync(path, 'r')
      const chunk = Buffer.alloc(statSync(path).size - offset)
      offset += readSync(file, chunk, 0, chunk.length, offset)
      closeSync(file)
      const lines = (rest + chunk.toString()).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines.filter((each) => each !== '')) {
        const event = JSON.parse(line)
        if (event.end) state.end = true
        if (event.restarts) state.restarts = true
        said(event)
      }
    },
  })
}
