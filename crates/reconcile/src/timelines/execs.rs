//! Records how commands ended whose daemon was killed: the next daemon asks the room.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hothouse_backend::{
    RoomConnection,
    connection::{ExecId, Exit},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    SandboxRecord,
    query::Query,
    record::{Draft, Kind, Record, bodies::ExecBody},
    room::RoomWish,
};
use hothouse_timeline::{Direction, Selection};
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::{RunPlace, Timelines};
use crate::Keepers;

/// How many commands of a run are checked, newest first.
const COMMANDS: usize = 2000;

/// The time limit for a room's answer.
const ASKING: Duration = Duration::from_secs(20);

/// The signal for a command of a fresh room, which the next daemon stops.
const KILL: i32 = 9;

/// Records how the commands of an earlier daemon ended, waiting for those still running.
pub(crate) async fn finish(keepers: Keepers) {
    let born = HostClock.now();
    let engine = keepers.engine.clone();
    let found = tokio::task::spawn_blocking(move || engine.sandboxes().unwrap_or_default()).await;
    let is_up =
        |one: &SandboxRecord| one.room.as_ref().is_some_and(|room| room.wish != RoomWish::Stopped);
    let mut tasks: JoinSet<()> = JoinSet::new();
    for sandbox in found.unwrap_or_default().into_iter().filter(is_up) {
        tasks.spawn(finish_one(keepers.clone(), sandbox, born));
    }
    while tasks.join_next().await.is_some() {}
}

async fn finish_one(keepers: Keepers, sandbox: SandboxRecord, born: Timestamp) {
    let (timelines, of) = (keepers.timelines.clone(), sandbox.clone());
    let read = move || left(&timelines, &of, born);
    let Ok(left) = tokio::task::spawn_blocking(read).await else { return };
    if left.is_empty() {
        return;
    }
    let runtime = keepers.engine.places(&sandbox).runtime;
    let asked = tokio::time::timeout(ASKING, keepers.connections.of(&runtime)).await;
    let Ok(Ok(room)) = asked else { return };
    let mut tasks: JoinSet<()> = JoinSet::new();
    for record in left {
        tasks.spawn(tell(keepers.timelines.clone(), sandbox.clone(), room.clone(), record));
    }
    while tasks.join_next().await.is_some() {}
}

/// Waits for a command to exit and records it. One that the room no longer knows has ended
/// unobserved.
async fn tell(
    timelines: Arc<Timelines>,
    sandbox: SandboxRecord,
    room: Arc<dyn RoomConnection>,
    record: Record,
) {
    let Ok(body) = record.body::<ExecBody>() else { return };
    let exit = match body.fresh {
        true => Ok(Exit::Signal(KILL)),
        false => room.wait(ExecId(body.exec.clone())).await,
    };
    // A room that has ended took its run along; a running one either knows, or has forgotten.
    if exit.is_err() && room.is_closed() {
        return;
    }
    timelines.append(&sandbox, ended(&record, body, exit.ok(), HostClock.now()));
}

/// Reads the commands that started before a time and have no end.
fn left(timelines: &Timelines, sandbox: &SandboxRecord, born: Timestamp) -> Vec<Record> {
    let Some(room) = &sandbox.room else { return Vec::new() };
    let place = RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
    // Opened so that the next record can be appended.
    timelines.of(sandbox);
    let Ok(reader) = timelines.reader(&place) else { return Vec::new() };
    let query = Query::of_kind(Kind::Exec);
    let direction = Direction::NewestFirst;
    let selection = Selection { query, since: None, now: born, limit: COMMANDS, direction };
    unended(reader.records(&selection).unwrap_or_default(), born)
}

/// Keeps the last record of each command without an end that started before a time. Newest first.
fn unended(records: Vec<Record>, born: Timestamp) -> Vec<Record> {
    let mut last: BTreeMap<String, Record> = BTreeMap::new();
    for record in records {
        last.entry(record.id.clone()).or_insert(record);
    }
    let is_left = |record: &Record| {
        let body = record.body::<ExecBody>().unwrap_or_default();
        record.time < born && !body.exec.is_empty() && body.duration_ms.is_none()
    };
    last.into_values().filter(is_left).collect()
}

fn ended(record: &Record, body: ExecBody, exit: Option<Exit>, now: Timestamp) -> Draft {
    let (exit, signal) = match exit {
        Some(Exit::Code(code) | Exit::NotStarted { code, .. }) => (Some(code), None),
        Some(Exit::Signal(number)) => (None, Some(number)),
        None => (None, None),
    };
    let how = match (exit, signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(number)) => format!("signal {number}"),
        (None, None) => "ended unseen".to_owned(),
    };
    let taken = now.duration_since(record.time).as_millis();
    let summary = format!("{how}: {}", body.argv.join(" "));
    let duration_ms = Some(u64::try_from(taken).unwrap_or(0));
    let body = ExecBody { exit, signal, duration_ms, ..body };
    let draft = Draft::of(now, summary, &body);
    Draft { id: Some(record.id.clone()), service: record.service.clone(), ..draft }
}
