/** Address and key of a resident machine's agent. In memory only: hostd reports them again after a restart. */
export interface LiveMachine {
  address: string // host:port of the agent
  agent_key: string // Bearer key of this incarnation
  epoch: number
  fence: number // identifies the machine, together with the workspace's id
  state: 'running' | 'paused' | 'frozen'
  agent_protocol: number // see contract/internal/agent.ts
  engine_refused?: true // once hibernated, this machine could not be woken again

  /** A write to this file thaws the machine; null: only the host can thaw it. */
  freezer_file: string | null
  /** How often the machine was frozen since this process first saw it. Connections from before a freeze may be dead. */
  stood_still: number
}
