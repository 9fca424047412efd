//! Queries for brokers, run with their own clients: scripts for Redis, statements for PostgreSQL.
//!
//! *To add a library:* add its keys to the three scripts, or its table here and in `model::queue`.

use hothouse_engine::QueueConfig;
use hothouse_model::stack::ServiceOrder;

use super::{KEEP, LABEL, own_command};
use crate::in_room::RoomTask;

const LIST: &str = include_str!("list.lua");
const RETRY: &str = include_str!("retry.lua");
const PROMOTE: &str = include_str!("promote.lua");

/// The tables of libraries that store their jobs in PostgreSQL.
const TABLES: &str = "pgboss.job graphile_worker.jobs public.jobs public.failed_jobs";

/// Whether a row is a job that is not due yet: pg-boss, Graphile Worker and Laravel each have a
/// column for that.
const IS_DELAYED: &str = "coalesce(coalesce((to_jsonb(x) ->> 'start_after')::timestamptz, (to_jsonb(x) ->> 'startafter')::timestamptz, \
    (to_jsonb(x) ->> 'run_at')::timestamptz, to_timestamp((to_jsonb(x) ->> 'available_at')::bigint)) > now(), false)";

/// Evaluates a script, passed as the first argument.
fn evaluated(service: &ServiceOrder, script: &str, id: Option<&str>) -> Option<RoomTask> {
    let database = service.database.as_ref()?;
    let url = service.url.as_deref().filter(|url| url.starts_with("redis://"))?;
    let port = url.rsplit(':').next().unwrap_or("6379").trim_end_matches('/');
    let client = database.shell.first()?;
    let run = format!("exec {client} -p {port} --raw eval \"$1\" 0 \"$2\"");
    let task = RoomTask::shell(run).with_arguments([script, id.unwrap_or_default()]);
    Some(limited(task, service))
}

fn limited(task: RoomTask, service: &ServiceOrder) -> RoomTask {
    let mut task = task.of_service(service.name());
    (task.label, task.keep) = (LABEL, KEEP);
    task
}

fn is_postgres(service: &ServiceOrder) -> bool {
    let url = service.url.as_deref().unwrap_or_default();
    service.database.is_some() && url.starts_with("postgres://")
}

/// Whether a service may contain jobs of a library.
pub(super) fn may_hold_jobs(service: &ServiceOrder) -> bool {
    redis_list(service).is_some() || is_postgres(service)
}

/// Lists the jobs of libraries that use Redis, as JSON.
pub(super) fn redis_list(service: &ServiceOrder) -> Option<RoomTask> {
    evaluated(service, LIST, None)
}

/// Prints `table<TAB>rows` for each existing table.
pub(super) fn postgres_list(service: &ServiceOrder) -> Option<RoomTask> {
    let tables = TABLES.replace(' ', ",");
    let script = format!(
        "found=$(psql -X -qtA -c \"select t from unnest('{{{tables}}}'::text[]) t where to_regclass(t) is not null\") || exit\n\
         for table in $found; do\n\
         printf '%s\\t' \"$table\"\n\
         psql -X -qtA -c \"select coalesce(json_agg(to_jsonb(x) || jsonb_build_object('_delayed', {IS_DELAYED})), '[]') from (select * from $table limit 2000) x\" | tr -d '\\n'; echo\n\
         done"
    );
    is_postgres(service).then(|| limited(RoomTask::shell(script), service))
}

/// Retries one dead job; each command prints `1` if it did.
pub(super) fn retry(services: &[ServiceOrder], config: &[QueueConfig], id: &str) -> Vec<RoomTask> {
    let redis = services.iter().filter_map(|service| evaluated(service, RETRY, Some(id)));
    let postgres = services.iter().filter(|service| is_postgres(service));
    let postgres =
        postgres.map(|service| limited(RoomTask::shell(RETRY_ROW).with_arguments([id]), service));
    let own = config.iter().filter_map(|queue| {
        let retry = queue.retry.as_ref()?;
        Some(own_command(queue, &format!("{{ {retry}\n}} >&2 && echo 1"), Some(id)))
    });
    redis.chain(postgres).chain(own).collect()
}

/// Makes delayed jobs due.
pub(super) fn promote(service: &ServiceOrder) -> Vec<RoomTask> {
    let redis = evaluated(service, PROMOTE, None);
    let postgres = is_postgres(service).then(|| limited(RoomTask::shell(PROMOTE_ROWS), service));
    redis.into_iter().chain(postgres).collect()
}

/// The columns of pg-boss have been spelled in two ways.
const RETRY_ROW: &str = r#"has() { [ "$(psql -X -qtA -c "select to_regclass('$1') is not null")" = t ]; }
changed() { psql -X -qtA -v ON_ERROR_STOP=1 -v id="$1" -f - | grep -c . ; }
if has pgboss.job; then
  style=$(psql -X -qtA -c "select count(*) from information_schema.columns where table_schema = 'pgboss' and table_name = 'job' and column_name = 'start_after'")
  if [ "$style" = 1 ]; then set -- "$1" retry_limit start_after completed_on; else set -- "$1" retrylimit startafter completedon; fi
  n=$(echo "update pgboss.job set state = 'retry', $2 = $2 + 1, $3 = now(), $4 = null where id::text = :'id' and state = 'failed' returning 1" | changed "$1")
  [ "$n" = 0 ] || { echo 1; exit; }
fi
if has graphile_worker.jobs; then
  n=$(echo "select 1 from graphile_worker.jobs j, graphile_worker.reschedule_jobs(array[j.id]::bigint[], run_at := now(), attempts := 0) where j.id::text = :'id'" | changed "$1")
  [ "$n" = 0 ] || { echo 1; exit; }
fi
if has public.failed_jobs && has public.jobs; then
  n=$(echo "with gone as (delete from failed_jobs where coalesce(to_jsonb(failed_jobs) ->> 'uuid', id::text) = :'id' and connection <> 'redis' returning queue, payload) insert into jobs (queue, payload, attempts, available_at, created_at) select queue, payload, 0, floor(extract(epoch from now()))::int, floor(extract(epoch from now()))::int from gone returning 1" | changed "$1")
  [ "$n" = 0 ] || { echo 1; exit; }
fi
echo 0
"#;

const PROMOTE_ROWS: &str = r#"has() { [ "$(psql -X -qtA -c "select to_regclass('$1') is not null")" = t ]; }
if has pgboss.job; then
  style=$(psql -X -qtA -c "select count(*) from information_schema.columns where table_schema = 'pgboss' and table_name = 'job' and column_name = 'start_after'")
  if [ "$style" = 1 ]; then column=start_after; else column=startafter; fi
  psql -X -q -c "update pgboss.job set $column = now() where state in ('created', 'retry') and $column > now() and name not like '\_\_pgboss%'"
fi
if has graphile_worker.jobs; then
  psql -X -q -o /dev/null -c "select graphile_worker.reschedule_jobs(array(select id from graphile_worker.jobs where locked_at is null and run_at > now() and attempts < max_attempts)::bigint[], run_at := now())"
fi
if has public.jobs; then
  psql -X -q -c "update jobs set available_at = floor(extract(epoch from now()))::int where reserved_at is null and available_at > floor(extract(epoch from now()))::int"
fi
true
"#;
