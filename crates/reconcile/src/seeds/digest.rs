//! Digests of all database tables, to detect whether seeding again changes anything.

use std::{collections::BTreeMap, time::Duration};

use hothouse_model::{
    seed::{TableChange, changed_tables},
    stack::ServiceOrder,
};

use super::{LABEL, Seeding, bundle::scheme};
use crate::in_room::RoomTask;

/// The time limit for the digests of a database; without them it is not compared.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of a list of tables is read.
const KEEP: usize = 4 << 20;

/// The digest and rows of each table, by service.
pub(super) type Digests = BTreeMap<String, BTreeMap<String, (String, Option<u64>)>>;

impl Seeding<'_> {
    /// Returns the digests of all databases that support them.
    pub(super) async fn digests(&self) -> Digests {
        let mut all = Digests::new();
        for service in &self.room.stack.services {
            let Some(script) = script(service) else { continue };
            let mut task = RoomTask::shell(script).of_service(service.name());
            (task.label, task.timeout, task.keep) = (LABEL, PATIENCE, KEEP);
            match self.room.run(task).await {
                Ok(printed) if printed.is_ok() && !printed.stdout.is_cut() => {
                    all.insert(service.name().to_owned(), tables(&printed.stdout.text()));
                }
                other => tracing::debug!(?other, service = service.name(), "no digests"),
            }
        }
        all
    }
}

/// Returns the tables that differ, of databases with digests both times.
pub(super) fn changes(before: &Digests, after: &Digests) -> Vec<TableChange> {
    let both = before.iter().filter_map(|(name, before)| Some((name, before, after.get(name)?)));
    both.flat_map(|(name, before, after)| changed_tables(name, before, after)).collect()
}

/// Parses `table<TAB>rows<TAB>digest` lines.
fn tables(text: &str) -> BTreeMap<String, (String, Option<u64>)> {
    let line = |line: &str| {
        let mut parts = line.split('\t');
        let (table, rows, digest) = (parts.next()?, parts.next()?, parts.next()?);
        Some((table.to_owned(), (digest.trim().to_owned(), rows.trim().parse().ok())))
    };
    text.lines().filter_map(line).collect()
}

fn script(service: &ServiceOrder) -> Option<String> {
    let database = service.database.as_ref()?;
    let client = database.shell.first()?;
    match scheme(service) {
        "postgres" => Some(format!("exec psql -X -qtA -F '\t' -c \"{POSTGRES}\"")),
        "mysql" | "mariadb" => Some(MYSQL.replace("CLIENT", client)),
        "redis" => Some(format!("exec {client} --raw eval \"{REDIS}\" 0")),
        _ => None,
    }
}

/// The digest of a table does not depend on the order of its rows.
const POSTGRES: &str = "set statement_timeout = '25s'; \
    with t as (select format('%I.%I', table_schema, table_name) as name, query_to_xml(format(\
    'select count(*) as c, md5(coalesce(string_agg(md5(x::text), '''' order by md5(x::text)), '''')) as d from %I.%I x', \
    table_schema, table_name), false, true, '') as found from information_schema.tables \
    where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')) \
    select name, (xpath('/row/c/text()', found))[1]::text, (xpath('/row/d/text()', found))[1]::text from t order by 1";

const MYSQL: &str = "CLIENT -N -B -e \"select concat(table_schema, '.', table_name), concat('\\`', table_schema, '\\`.\\`', table_name, '\\`') \
    from information_schema.tables where table_type = 'BASE TABLE' and table_schema not in \
    ('mysql', 'sys', 'information_schema', 'performance_schema') order by 1\" | while IFS='\t' read -r name quoted; do \
    rows=$(CLIENT -N -B -e \"select count(*) from $quoted\" < /dev/null) || exit; \
    sum=$(CLIENT -N -B -e \"checksum table $quoted\" < /dev/null | cut -f2) || exit; \
    printf '%s\\t%s\\t%s\\n' \"$name\" \"$rows\" \"$sum\"; done";

/// The remaining time of expiring keys is ignored.
const REDIS: &str = "local all, cursor = {}, '0' repeat local part = redis.call('scan', cursor, 'count', 1000) cursor = part[1] \
    for _, key in ipairs(part[2]) do all[#all + 1] = key end until cursor == '0' or #all > 20000 table.sort(all) local out = {} \
    for _, key in ipairs(all) do local kind = redis.call('type', key).ok local rows = 1 \
    if kind == 'list' then rows = redis.call('llen', key) elseif kind == 'hash' then rows = redis.call('hlen', key) \
    elseif kind == 'set' then rows = redis.call('scard', key) elseif kind == 'zset' then rows = redis.call('zcard', key) \
    elseif kind == 'stream' then rows = redis.call('xlen', key) end \
    out[#out + 1] = string.gsub(key, '%s', ' ') .. '\\t' .. rows .. '\\t' .. redis.sha1hex(redis.call('dump', key)) end \
    return table.concat(out, '\\n')";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_tables_and_others_are_left_out() {
        let found = tables("public.users\t3\tabc\nSET\n\norders\tx\td\n");
        assert_eq!(found["public.users"], ("abc".to_owned(), Some(3)));
        assert_eq!(found["orders"], ("d".to_owned(), None));
        assert_eq!(found.len(), 2);
    }
}
