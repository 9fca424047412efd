//! Database queries of scenarios, run in the room with the database's own client.

use std::time::Duration;

use hothouse_evidence::{
    checks::RowAnswer,
    expected::{Expected, Wanted},
};
use hothouse_model::{Failure, config::RowExpectation, stack::ServiceOrder};

use crate::in_room::{InRoom, RoomTask};

/// How long a query may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much of an answer is kept.
const KEPT: usize = 64 << 10;

/// Returns the rows that are expected.
pub(super) fn wanted(expected: &[Expected]) -> Vec<&RowExpectation> {
    let rows = expected.iter().filter_map(|one| match &one.wanted {
        Wanted::Row(row) => Some(row),
        _ => None,
    });
    rows.collect()
}

/// Runs one query.
pub(super) async fn ask(room: &InRoom, row: &RowExpectation) -> Result<RowAnswer, Failure> {
    let (service, query) = (row.service.as_str(), row.query.as_str());
    let answer = |rows: String, failure: Option<String>| RowAnswer {
        service: service.to_owned(),
        query: query.to_owned(),
        rows,
        failure,
    };
    let Some(order) = room.service(service) else {
        return Ok(answer(String::new(), Some(format!("service `{service}` is not in the room"))));
    };
    let mut task = RoomTask::shell(script(order)).with_arguments([query]).of_service(service);
    (task.label, task.timeout, task.keep) = ("row", PATIENCE, KEPT);
    let output = room.run(task).await?;
    if output.is_ok() {
        return Ok(answer(output.stdout.text(), None));
    }
    let lines = output.last_lines(3).join("; ");
    Ok(answer(String::new(), Some(format!("the query failed ({}): {lines}", output.end))))
}

/// Returns the script that runs the query `$1`. Services other than databases have commands
/// instead.
fn script(service: &ServiceOrder) -> &'static str {
    let shell = service.database.as_ref().and_then(|database| database.shell.first());
    let client = shell.map(|client| client.rsplit('/').next().unwrap_or(client));
    match client {
        Some("psql") => "exec psql -X -qtA -F '\t' -v ON_ERROR_STOP=1 -c \"$1\"",
        Some("mariadb") => "exec mariadb -N -B -e \"$1\"",
        Some("mysql") => "exec mysql -N -B -e \"$1\"",
        Some("redis-cli") => "printf '%s\\n' \"$1\" | exec redis-cli --raw",
        Some("valkey-cli") => "printf '%s\\n' \"$1\" | exec valkey-cli --raw",
        _ => "exec /bin/sh -c \"$1\"",
    }
}
