import { CompiledQuery, sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Tx } from '../../../db/reader.ts'

/** `$1` is the id of the organization or the person. */
export interface Content {
  name: string
  about: string
  text: string
}

const of_workspaces = 'join workspaces w on w.id = t.workspace_id where w.organization_id = $1::uuid'

/** Never add credentials or keys to an export. */
export const ORGANIZATION_CONTENT: readonly Content[] = [
  {
    name: 'organization',
    about: 'The organization and its plan',
    text: `select g.id, g.name, g.slug, p.slug as plan, g.created_at, g.billed_through from organizations g join plans p on p.id = g.plan_id where g.id = $1::uuid`,
  },
  {
    name: 'members',
    about: 'Who is in it',
    text: `select t.person_id, p.email, p.display_name, t.role, p.mfa_enabled, t.created_at from memberships t join people p on p.id = t.person_id
      where t.organization_id = $1::uuid order by t.created_at, t.person_id`,
  },
  {
    name: 'invitations',
    about: 'Who was invited, without the links',
    text: `select id, email, role, invited_by, created_at, expires_at, accepted_at, revoked_at from invitations where organization_id = $1::uuid order by id`,
  },
  {
    name: 'projects',
    about: 'Its projects',
    text: `select id, name, slug, created_at from projects where organization_id = $1::uuid order by id`,
  },
  {
    name: 'api_keys',
    about: 'API keys without their secrets',
    text: `select t.id, t.key_id, t.project_id, t.name, t.tool_permissions, t.created_at, t.expires_at, t.revoked_at, u.last_used_at
      from api_keys t left join api_key_uses u on u.api_key_id = t.id where t.organization_id = $1::uuid order by t.id`,
  },
  {
    name: 'workspaces',
    about: 'Records of workspaces, those that were deleted included for as long as they are kept; not what is in them',
    text: `select t.id, t.project_id, t.key, t.observed_state, t.desired_state, t.ended_reason, t.lifetime, t.mode, t.purpose, t.disk_layout, t.origin,
        tp.slug as template, tv.version as template_version, t.caps, t.ceiling_cpu_millis, t.ceiling_memory_mib, t.ceiling_disk_gib, t.inputs, t.idle_policy,
        t.tree_revision, t.active_at, t.created_at, t.updated_at, t.deleted_at
      from workspaces t join template_versions tv on tv.id = t.template_version_id join templates tp on tp.id = tv.template_id
      where t.organization_id = $1::uuid order by t.id`,
  },
  {
    name: 'checkpoints',
    about: 'Records of checkpoints',
    text: `select t.id, t.workspace_id, t.kind, t.label, t.size_bytes, t.disk_bytes, t.created_at, t.expires_at, t.deleted_at from checkpoints t ${of_workspaces} order by t.id`,
  },
  {
    name: 'operations',
    about: 'Operations and how they ended, for as long as they are kept',
    text: `select id, kind, state, state_reason, project_id, workspace_id, result, error, created_at, started_at, completed_at
      from operations where organization_id = $1::uuid order by id`,
  },
  {
    name: 'agent_sessions',
    about: 'Who worked in which workspace, by label',
    text: `select t.id, t.workspace_id, t.principal_type, t.principal_id, t.agent_label, t.created_at, t.last_used_at from agent_sessions t ${of_workspaces} order by t.id`,
  },
  {
    name: 'secrets',
    about: 'Names of secrets and who may use them; never a value',
    text: `select id, project_id, name, description, allowed_project_ids, allowed_workspace_ids, allowed_tools, hosts, version, created_at, updated_at, deleted_at
      from secrets where organization_id = $1::uuid order by id`,
  },
  {
    name: 'secret_versions',
    about: 'When values were stored and erased',
    text: `select t.secret_id, t.version, t.created_at, t.erased_at from secret_versions t join secrets s on s.id = t.secret_id
      where s.organization_id = $1::uuid order by t.secret_id, t.version`,
  },
  {
    name: 'workspace_secrets',
    about: 'Which names are bound to which workspace',
    text: `select t.workspace_id, t.project_id, t.name from workspace_secrets t ${of_workspaces} order by t.workspace_id, t.name`,
  },
  {
    name: 'volumes',
    about: 'Records of volumes; not what is in them',
    text: `select id, project_id, name, quota_gib, org_shared, state, created_at, updated_at, deleted_at from volumes where organization_id = $1::uuid order by id`,
  },
  {
    name: 'volume_attachments',
    about: 'Which workspace has which volume where',
    text: `select t.id, t.workspace_id, t.volume_id, t.mount_path, t.mode, t.state, t.created_at, t.updated_at from volume_attachments t ${of_workspaces} order by t.id`,
  },
  {
    name: 'templates',
    about: 'Its own templates',
    text: `select id, slug, display_name, description, created_at, archived_at from templates where organization_id = $1::uuid order by id`,
  },
  {
    name: 'template_versions',
    about: 'Versions of its templates with their settings; not their images',
    text: `select t.id, p.slug as template, t.version, t.layered, t.settings, t.egress, t.description, t.scan_findings, t.created_at, t.published_at, t.archived_at
      from template_versions t join templates p on p.id = t.template_id where p.organization_id = $1::uuid order by t.id`,
  },
  {
    name: 'template_builds',
    about: 'Builds of templates; not their logs',
    text: `select id, project_id, template_id, operation_id, kind, findings, version_id, created_at from template_builds where organization_id = $1::uuid order by id`,
  },
  {
    name: 'egress_versions',
    about: 'Egress policies of projects and workspaces, each version',
    text: `select id, project_id, workspace_id, version, mode, rules, cidrs, created_by_type, created_by_id, created_at
      from egress_versions where organization_id = $1::uuid order by id`,
  },
  {
    name: 'ports',
    about: 'Exposed ports and their traffic, without credentials',
    text: `select t.id, t.workspace_id, t.port, t.requests, t.received_bytes, t.sent_bytes, t.last_request_at, t.created_at from workspace_ports t ${of_workspaces} order by t.id`,
  },
  {
    name: 'usage_hours',
    about: 'What each project used in each hour of the ledger, in whole units of each meter',
    text: `select project_id, hour, cpu_seconds, memory_gib_seconds, storage_gib_seconds, egress_bytes, ingress_bytes, volume_storage_gib_seconds
      from usage_hours where organization_id = $1::uuid order by hour, project_id`,
  },
  {
    name: 'usage_grants',
    about: 'Credits, and what was drawn of each in which period',
    text: `select t.id, t.allowance, t.granted_meter_units, t.note, t.created_at, t.expires_at, t.revoked_at, d.period_starts_at, d.meter_units as drawn_meter_units
      from usage_grants t left join usage_grant_draws d on d.grant_id = t.id where t.organization_id = $1::uuid order by t.id, d.period_starts_at`,
  },
  {
    name: 'spend_policies',
    about: 'Whether there is overage, and its cap',
    text: `select version, overage_enabled, spend_cap_minor, changed_at from spend_policies where organization_id = $1::uuid`,
  },
  {
    name: 'overage_periods',
    about: 'Periods in which overage was on',
    text: `select period_starts_at, spend_cap_minor from overage_periods where organization_id = $1::uuid order by period_starts_at`,
  },
  {
    name: 'spend_alerts',
    about: 'Thresholds that were reached',
    text: `select id, period_starts_at, subject, threshold_percent, reached_at, mailed_at from spend_alerts where organization_id = $1::uuid order by id`,
  },
  {
    name: 'spend_alert_settings',
    about: 'Thresholds that are told of',
    text: `select thresholds_percent, changed_at from spend_alert_settings where organization_id = $1::uuid`,
  },
  {
    name: 'subscription_changes',
    about: 'What its plan was and cost before each change',
    text: `select changed_at, plan, currency, price_minor, cpu_hours, ram_gib_hours, cpu_hour_minor, ram_gib_hour_minor
      from subscription_changes where organization_id = $1::uuid order by changed_at`,
  },
  {
    name: 'invoices',
    about: 'Invoices with their lines',
    text: `select id, number, state, period_starts_at, period_ends_at, currency, lines, total_minor, issued_at, due_at, paid_at, voided_at
      from invoices where organization_id = $1::uuid order by id`,
  },
  {
    name: 'payment_accounts',
    about: 'What the payment service knows it by, and what it has bought',
    text: `select a.customer_id, a.subscription_id, p.slug as plan, b.slug as plan_before, a.created_at from payment_accounts a
      left join plans p on p.id = a.plan_id left join plans b on b.id = a.plan_before_id where a.organization_id = $1::uuid`,
  },
  {
    name: 'checkouts',
    about: 'Plans that somebody began to buy',
    text: `select t.id, p.slug as plan, t.state, t.session_id, t.created_at, t.expires_at from checkouts t join plans p on p.id = t.plan_id
      where t.organization_id = $1::uuid order by t.id`,
  },
  {
    name: 'payment_invoices',
    about: 'What the payment service knows invoices by',
    text: `select t.invoice_id, t.remote_id, t.pushed_at, t.settled_at from payment_invoices t join invoices i on i.id = t.invoice_id
      where i.organization_id = $1::uuid order by t.invoice_id`,
  },
  {
    name: 'audit',
    about:
      'Records of changes and of calls of tools with their links, in the order of their chain; those of the last second may have none yet',
    text: `select sequence, encode(sha256, 'hex') as sha256, id, created_at, project_id, actor_kind, actor_id, actor_name, action, subject_kind, subject_id,
        request_id, source_address, details from audit_events where organization_id = $1::uuid order by sequence nulls last, id`,
  },
]

export const ACCOUNT_CONTENT: readonly Content[] = [
  {
    name: 'account',
    about: 'The account; neither its password nor its second factor',
    text: `select id, email, email_verified, display_name, mfa_enabled, created_at from people where id = $1::uuid`,
  },
  {
    name: 'memberships',
    about: 'Organizations that it is in; each has an export of its own',
    text: `select g.id as organization_id, g.name, g.slug, t.role, t.created_at from memberships t join organizations g on g.id = t.organization_id
      where t.person_id = $1::uuid order by t.created_at, g.id`,
  },
  {
    name: 'sessions',
    about: 'Where it is and was signed in',
    text: `select id, device, address, created_at, last_used_at, expires_at, revoked_at from person_sessions where person_id = $1::uuid order by id`,
  },
  {
    name: 'mails',
    about: 'Mails of the last days, without what they said',
    text: `select id, kind, email, created_at, sent_at, given_up_at from mails where person_id = $1::uuid order by id`,
  },
  {
    name: 'audit',
    about: 'Records of changes of the account',
    text: `select id, created_at, actor_kind, actor_id, actor_name, action, subject_kind, subject_id, request_id, source_address, details
      from audit_events where organization_id is null and subject_id = $1::uuid::text order by uuid_send(id)`,
  },
]

/** Reads all pages from one snapshot, so that they fit together. The snapshot blocks no other transaction. */
export function atOneMoment<T>(db: Db, work: (tx: Tx) => Promise<T>): Promise<T> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (tx) => {
      // By default PostgreSQL plans a cursor for its first rows only, and may then scan rows of all tenants.
      await sql`set local cursor_tuple_fraction = 1`.execute(tx)
      await sql`set local statement_timeout = '120s'`.execute(tx) // a sorted query returns its first page only after the sort
      return work(tx)
    })
}

const PAGE = 1000

export async function* rowsOf(tx: Tx, { text }: Content, id: string): AsyncGenerator<object[]> {
  await tx.executeQuery(CompiledQuery.raw(`declare content no scroll cursor for ${text}`, [id]))
  for (;;) {
    const { rows } = await tx.executeQuery<object>(CompiledQuery.raw(`fetch ${PAGE} from content`))
    if (rows.length > 0) yield rows
    if (rows.length < PAGE) break
  }
  await tx.executeQuery(CompiledQuery.raw('close content'))
}
