import { sql } from 'kysely'
import type { Db } from './database.ts'

/** The schema for reviews, which is never executed. The embedded PostgreSQL has no pg_dump. */
export async function dumpSchema(db: Db): Promise<string> {
  const { rows } = await sql<{ part: string }>`
    with relations as (
      select c.oid, c.relname from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname not like 'kysely_%'
    ),
    columns as (
      select a.attrelid, string_agg(format('  %I %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''), case when a.attnotnull then ' not null' else '' end), E',\n' order by a.attnum) as text
      from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attnum > 0 and not a.attisdropped group by a.attrelid
    ),
    constraints as (
      select conrelid, string_agg(format('  %s', pg_get_constraintdef(oid)), E',\n' order by contype desc, conname) as text
      from pg_constraint where contype <> 'n' group by conrelid
    ),
    grants as (
      select table_name, string_agg(format('%s to %s', privileges, grantee), '; ' order by grantee, privileges) as text
      from (
        select table_name::name, grantee::name, string_agg(lower(privilege_type), ', ' order by privilege_type) as privileges
        from information_schema.role_table_grants where grantee in ('berth_api', 'berth_cell') group by table_name, grantee
        union all
        select r.relname, o.rolname, format('%s (%s)', lower(g.privilege_type), string_agg(a.attname, ', ' order by a.attnum))
        from relations r join pg_attribute a on a.attrelid = r.oid cross join aclexplode(a.attacl) g join pg_roles o on o.oid = g.grantee
        where o.rolname in ('berth_api', 'berth_cell') group by r.relname, o.rolname, g.privilege_type
      ) as each group by table_name
    )
    select part from (
      select 1 as kind, r.relname::text as name, format(E'create table %I (\n%s%s\n); -- %s', r.relname, c.text, coalesce(E',\n' || k.text, ''), g.text) as part
      from relations r join columns c on c.attrelid = r.oid left join constraints k on k.conrelid = r.oid left join grants g on g.table_name = r.relname
      union all
      select 2, indexname, indexdef || ';' from pg_indexes
      where schemaname = 'public' and tablename not like 'kysely_%' and indexname not in (select conname from pg_constraint)
      union all
      select 3, c.relname, format('create sequence %I;', c.relname) from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'S'
      union all
      select 4, p.proname, rtrim(pg_get_functiondef(p.oid), E'\n') || ';' from pg_proc p where p.pronamespace = 'public'::regnamespace
      union all
      select 5, t.tgname, pg_get_triggerdef(t.oid) || ';' from pg_trigger t where not t.tgisinternal
      union all
      select 6, c.relname, format(E'create view %I%s as\n%s -- %s', c.relname, coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', ''),
        pg_get_viewdef(c.oid), g.text)
      from pg_class c left join grants g on g.table_name = c.relname where c.relnamespace = 'public'::regnamespace and c.relkind = 'v'
    ) as parts order by kind, name collate "C", part collate "C"`.execute(db)
  return `-- Generated from migrations/ by \`npm run schema\`. Behind each table: who may do what.\n\n${rows.map(({ part }) => part).join('\n\n')}\n`
}
