import { sql } from 'kysely'
import { manyExports } from '../support/exports.ts'
import type { World } from './support.ts'

export interface Owners {
  workspace_id: string
  person_id: string
  secret_id: string
  organizations: string[]
  template_id: string
}

export async function manyRows(w: World, many: number): Promise<Owners> {
  const workspace_id = await w.running('many')
  const other = await w.running('other')
  const person_id = w.ids.next()
  const { organization_id, project_id } = w.a
  const { superuser: db } = w.database
  const now = w.clock.now()
  // The owner has the older half of the rows, and the filters match its oldest rows.
  await sql`insert into operations (id, organization_id, project_id, workspace_id, kind, state, created_at, updated_at, completed_at)
    select ${ids()}, ${organization_id}, ${project_id}, case when n > ${many / 2} then ${other}::uuid else ${workspace_id}::uuid end,
      case when n < 8 then 'reset' else (array['suspend', 'resume'])[1 + n / 2 % 2] end, case when n < 16 then 'failed' else 'succeeded' end,
      ${now}, ${now}, ${now} from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into agent_sessions (id, workspace_id, principal_type, principal_id, agent_label, created_at, last_used_at)
    select ${ids()}, case when n > ${many / 2} then ${other}::uuid else ${workspace_id}::uuid end, 'api_key', ${w.a.key_row_id}, n::text, ${now}, ${now}
    from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into projects (id, organization_id, name, slug, created_at)
    select ${ids()}, case when n > ${many / 2} then ${w.b.organization_id}::uuid else ${organization_id}::uuid end, n, n, ${now}
    from generate_series(1, ${many}) n`.execute(db)
  const { plan_id } = await db.selectFrom('organizations').select('plan_id').where('id', '=', organization_id).executeTakeFirstOrThrow()
  await sql`insert into organizations (id, name, slug, plan_id, created_at)
    select ${ids()}, n, n, ${plan_id}, ${now} from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into people (id, email, created_at) values (${person_id}, 'many@example.com', ${now})`.execute(db)
  await sql`insert into people (id, email, created_at) select ${ids()}, n, ${now} from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into memberships (organization_id, person_id, role, created_at)
    select ${organization_id}, id, 'member', ${now} from people`.execute(db)
  await sql`insert into person_sessions (id, person_id, token_sha256, created_at, last_used_at, expires_at, revoked_at)
    select ${ids()}, case when n > ${many / 2} then (select id from people where email = '1') else ${person_id}::uuid end, sha256(n::text::bytea),
      ${now}, ${now}, ${now}::timestamptz + interval '90 days', case when n % 2 = 0 then ${now}::timestamptz end
    from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into invitations (id, organization_id, email, role, created_at, expires_at, accepted_at)
    select ${ids()}, ${organization_id}, n, 'member', ${now}, ${now}::timestamptz + interval '7 days', case when n > 60 then ${now}::timestamptz end
    from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into api_keys (id, key_id, secret_sha256, organization_id, project_id, tool_permissions, created_at, revoked_at)
    select ${ids()}, n, '', ${organization_id}, ${project_id}, '{}', ${now}, case when n > 60 then ${now}::timestamptz end
    from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into audit_events (id, created_at, organization_id, actor_kind, action, subject_kind, subject_id)
    select ${ids()}, ${now}, case when n > ${many / 2} then ${w.b.organization_id}::uuid else ${organization_id}::uuid end, 'service', 'a', 'b', n
    from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into usage_grants (id, organization_id, allowance, granted_meter_units, created_at)
    select ${ids()}, case when n > ${many / 2} then ${w.b.organization_id}::uuid else ${organization_id}::uuid end, 'cpu_hours', n, ${now}
    from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into invoices (id, organization_id, number, state, period_starts_at, period_ends_at, currency, lines, total_minor, issued_at, due_at)
    select ${ids()}, case when n > ${many / 2} then ${w.b.organization_id}::uuid else ${organization_id}::uuid end, n, 'paid',
      ${now}::timestamptz + n * interval '1 day', ${now}, 'EUR', '[]', 1, ${now}, ${now} from generate_series(1, ${many}) n`.execute(db)
  await manyExports(w, many, person_id)
  const other_project = w.a2.project_id
  const secret_id = w.ids.next()
  await sql`insert into secrets (id, organization_id, project_id, name, allowed_tools, version, created_at, updated_at, deleted_at)
    select ${ids()}, ${organization_id}, (array[${project_id}::uuid, ${other_project}::uuid, null])[1 + n % 3], n, '{}', 1, ${now}, ${now},
      case when n > 60 then ${now}::timestamptz end
    from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into secrets (id, organization_id, project_id, name, allowed_tools, version, created_at, updated_at)
    values (${secret_id}, ${organization_id}, ${project_id}, 'many', '{}', 1, ${now}, ${now})`.execute(db)
  await sql`insert into secret_versions (id, secret_id, version, created_at, erased_at)
    select ${ids()}, case when n > ${many / 2} then (select id from secrets where name = '1') else ${secret_id}::uuid end, n, ${now}, ${now}
    from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into egress_versions (id, organization_id, project_id, workspace_id, version, mode, created_by_type, created_by_id, created_at)
    select ${ids()}, ${organization_id}, ${project_id}, (array[${workspace_id}::uuid, ${other}::uuid, null])[1 + n % 3], n, 'deny_all',
      'api_key', ${w.a.key_row_id}, ${now} from generate_series(1, ${many}) n`.execute(db)
  await sql`insert into volumes (id, organization_id, project_id, name, quota_gib, org_shared, state, created_at, updated_at, deleted_at)
    select ${ids()}, ${organization_id}, (array[${project_id}::uuid, ${other_project}::uuid])[1 + n % 2], n, 1, n % 50 = 0,
      case when n > 60 then 'deleted' else 'available' end, ${now}, ${now}, case when n > 60 then ${now}::timestamptz end
    from generate_series(1, ${many}) n`.execute(db)
  await manyOfWorkspaces(w, many, workspace_id, other)
  const organizations = (await db.selectFrom('organizations').select('id').where('slug', 'in', ['1', '2', '3']).execute()).map(
    ({ id }) => id,
  )
  await sql`insert into templates (id, organization_id, slug, created_at)
    select ${ids()}, case when n <= 30 then ${organization_id}::uuid when n <= 40 then null else (select id from organizations where slug = n::text) end,
      't' || n, ${now} from generate_series(1, ${many}) n`.execute(db)
  const template_id = (await db.selectFrom('templates').select('id').where('slug', '=', 't1').executeTakeFirstOrThrow()).id
  await sql`insert into template_versions (id, template_id, version, layered, layers, settings, created_at, published_at)
    select ${ids()}, case when n > ${many / 2} then (select id from templates where slug = 't2') else ${template_id}::uuid end, n, true, '{}', '{}',
      ${now}, ${now} from generate_series(1, ${many}) n`.execute(db)
  await sql`analyze`.execute(db)
  return { workspace_id, person_id, secret_id, organizations, template_id }
}

async function manyOfWorkspaces(w: World, many: number, workspace_id: string, other: string): Promise<void> {
  const { superuser: db } = w.database
  const now = w.clock.now()
  // A workspace has at most some fifty checkpoints, a few of them expired.
  const { cell_id } = await db.selectFrom('workspaces').select('cell_id').where('id', '=', other).executeTakeFirstOrThrow()
  await db.transaction().execute(async (tx) => {
    await sql`set local session_replication_role = replica`.execute(tx) // allows rows whose workspace does not exist
    await sql`insert into checkpoints (id, workspace_id, cell_id, operation_id, kind, engine, epoch, size_bytes, resources, created_at, expires_at, deleted_at)
      select ${ids()}, case when n <= 30 then ${workspace_id}::uuid when n <= 50 then ${other}::uuid else md5((n / 20)::text)::uuid end,
        ${cell_id}, ${w.ids.next()}, 'snapshot', 'e', 1, 1, '{}', ${now},
        case when n between 31 and 40 then ${now}::timestamptz - interval '1 day' when n % 2 = 0 then ${now}::timestamptz + interval '7 days' end,
        case when n between 41 and 50 then ${now}::timestamptz - interval '40 days' end
      from generate_series(1, ${many}) n`.execute(tx)
    await sql`insert into volume_attachments (id, workspace_id, volume_id, mount_path, mode, place, state, created_at, updated_at)
      select ${ids()}, case when n <= 16 then ${workspace_id}::uuid else md5((n / 16)::text)::uuid end, md5('v' || n)::uuid, '/' || n, 'read_only', n % 16,
        'attached', ${now}, ${now} from generate_series(1, ${many}) n`.execute(tx)
    await sql`insert into workspace_ports (id, workspace_id, port, created_at)
      select ${ids()}, case when n <= 40 then ${workspace_id}::uuid else md5((n / 40)::text)::uuid end, 1000 + n % 40, ${now}
      from generate_series(1, ${many}) n`.execute(tx)
    await sql`insert into port_credentials (id, port_id, kind, sha256, created_at)
      select md5(id::text)::uuid, id, 'callback', sha256(id::text::bytea), ${now} from workspace_ports`.execute(tx)
  })
}

function ids() {
  return sql`('01920000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
}
