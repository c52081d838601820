import { createHash, randomUUID } from 'node:crypto'
import type { Actor } from './open.ts'
import { runOnce } from './command.ts'
import { ceilingOf, TICK_MS, type Believed, type Witness } from './model.ts'

/**
 * One answer proves memory, processes, disk, open files and timers. The program uses too little CPU to prevent parking, and is no command,
 * which would keep the machine resident.
 */
const WITNESS = `
import hashlib, json, os, signal, sys, time
name, tick = sys.argv[1], ${TICK_MS / 1000}
os.chdir('/home/user')
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
box = '/dev/shm/' + name
os.mkdir(box)
canary = os.urandom(64 << 20)
open(box + '/canary', 'wb').write(canary)
digest = hashlib.sha256(canary).hexdigest()
del canary
grown = open('grown-' + name, 'x+')
gone = open('gone-' + name, 'x+'); os.unlink('gone-' + name)
seq, chain, lines, early = 0, name, [], 0
def answer():
    text = ''.join(lines)
    grown.seek(0); gone.seek(0)
    said = json.dumps({'pid': os.getpid(), 'seq': seq, 'chain': chain, 'early': early, 'grown': grown.read() == text,
        'gone': gone.read() == text, 'canary': hashlib.sha256(open(box + '/canary', 'rb').read()).hexdigest() == digest})
    for asked in os.listdir(box):
        if asked.startswith('ask-'):
            open(box + '/new', 'w').write(said)
            os.remove(box + '/' + asked); os.rename(box + '/new', box + '/said-' + asked[4:])
open(box + '/new', 'w').write(str(os.getpid())); os.rename(box + '/new', box + '/pid')
while True:
    due = time.monotonic() + tick
    while (left := due - time.monotonic()) > 0:
        if signal.sigtimedwait({signal.SIGUSR1}, left) is not None: answer()
        elif time.monotonic() < due - 0.0001: early += 1
    seq += 1
    chain = hashlib.sha256((chain + str(seq)).encode()).hexdigest()
    lines.append(f'{seq} {chain}\\n')
    for file in (grown, gone): file.write(lines[-1]); file.flush()
`
const START =
  'setsid python3 -c "$0" "$1" </dev/null >/dev/null 2>&1 & until [ -s "/dev/shm/$1/pid" ]; do sleep 0.05; done; cat "/dev/shm/$1/pid"'
/** $0: the witness's directory; $1: id of the question. */
const ASK = `cd "$0" || exit 3
touch "ask-$1"; kill -USR1 "$(cat pid)" || exit 3
for turn in $(seq 800); do [ -s "said-$1" ] && cat "said-$1" && rm "said-$1" && exit; sleep 0.05; done; exit 4`

interface Testimony {
  pid: number
  seq: number
  chain: string
  early: number
  grown: boolean
  gone: boolean
  canary: boolean
}

/** Needs the exclusive lock: no capture may contain a witness that is not in the model. */
export async function startWitness(actor: Actor, seen: Believed): Promise<void> {
  if (seen.content.witness !== null) return
  const { deaths, content } = seen
  const name = `witness-${randomUUID()}`
  const at_ms = performance.now()
  const ran = await runOnce(actor, seen, () => ['bash', '-c', START, WITNESS, name])
  if (ran?.exit_code !== 0 || deaths !== seen.deaths) return
  content.witness = { name, pid: Number(ran.stdout), floor: 0, ceiling: 0, at_ms }
  actor.history.note('witness_started', { id: seen.id, name })
}

/** Checks N2 and N4, if the workspace has a witness. */
export async function testify(actor: Actor, seen: Believed): Promise<void> {
  const { deaths, content } = seen
  const { witness } = content
  if (witness === null) return
  const { floor } = witness
  const asked_ms = performance.now()
  const ran = await runOnce(actor, seen, (asked) => ['bash', '-c', ASK, `/dev/shm/${witness.name}`, asked])
  const ceiling = ceilingOf(witness)
  if (ran === null || deaths !== seen.deaths || seen.content !== content || content.witness !== witness) return
  const about = { id: seen.id, key: seen.key, name: witness.name }
  if (ran.exit_code !== 0) return actor.history.violate('N2: the witness does not answer', { ...about, exit_code: ran.exit_code })
  const said = JSON.parse(ran.stdout) as Testimony
  const right = { pid: witness.pid, seq: said.seq, chain: chainOf(witness.name, said.seq), early: 0, grown: true, gone: true, canary: true }
  if (JSON.stringify({ ...said, seq: 0 }) !== JSON.stringify({ ...right, seq: 0 }))
    actor.history.violate('N2: memory, processes or files are not what they were', { ...about, said, right })
  if (said.seq < floor || said.seq > ceiling)
    actor.history.violate('N2: the witness has not counted what it must have', { ...about, seq: said.seq, floor, ceiling })
  believe(witness, said.seq, asked_ms)
  actor.history.count('testified')
}

/** The witness answered after the question, so since `asked_ms` it may have counted once a tick. */
function believe(witness: Witness, seq: number, asked_ms: number): void {
  witness.floor = Math.max(witness.floor, seq)
  const counted = { ...witness, ceiling: seq + 1, at_ms: asked_ms }
  if (ceilingOf(counted) < ceilingOf(witness)) Object.assign(witness, { ceiling: seq + 1, at_ms: asked_ms })
}

function chainOf(name: string, seq: number): string {
  let chain = name
  for (let n = 1; n <= seq; n += 1) chain = createHash('sha256').update(`${chain}${n}`).digest('hex')
  return chain
}
