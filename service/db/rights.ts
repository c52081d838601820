export interface Right {
  table: string
  role: string
  privilege: string
  /** null: the whole table, including future columns. */
  column: string | null
}

type Query = (text: string) => Promise<{ rows: Right[] }>

export async function readRights(query: Query): Promise<Right[]> {
  const { rows } = await query(`
    with relations as (
      select oid, relname, relacl from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
    ), granted as (
      select r.relname, r.relacl as acl, null::name as attname from relations r
      union all
      select r.relname, a.attacl, a.attname from relations r join pg_attribute a on a.attrelid = r.oid
      where a.attnum > 0 and not a.attisdropped and a.attacl is not null
    )
    select g.relname as "table", o.rolname as role, lower(x.privilege_type) as privilege, g.attname as "column"
    from granted g cross join lateral aclexplode(g.acl) x join pg_roles o on o.oid = x.grantee
    where o.rolname in ('berth_api', 'berth_cell')`)
  return rows
}
