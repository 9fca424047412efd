//! Records of service states: every change, including those between two reports of a room.
//!
//! Each room with services has a task that waits for its next report. What changed while no daemon
//! was running is found by comparing the first report with the last records.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::Duration,
};

use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    SandboxRecord,
    query::Query,
    record::{
        Draft, Kind, Process,
        bodies::{GapKind, ServiceBody},
    },
    room::RoomWish,
    stack::{
        StackReport,
        service::{Exit, ServiceState, ServiceStatus},
    },
};
use hothouse_timeline::{Direction, Selection, gap};
use jiff::Timestamp;
use tokio::{sync::broadcast::error::RecvError, task::JoinSet};

use super::{RunPlace, Timelines, unreported::suspect};
use crate::{Keepers, Stop};

/// How often to look for rooms without a task.
const LOOK: Duration = Duration::from_secs(1);

/// The delay before a room that did not answer is queried again.
const REST: Duration = Duration::from_millis(200);

/// How many services of a run are remembered.
const SERVICES: usize = 1000;

/// Records service states for as long as the daemon is running.
pub(crate) async fn watch(keepers: Keepers, mut stop: Stop) {
    let mut event_rx = keepers.event_tx.subscribe();
    let mut followed: HashMap<String, tokio::task::Id> = HashMap::new();
    let mut tasks: JoinSet<()> = JoinSet::new();
    loop {
        for (sandbox, runtime) in with_services(&keepers).await {
            let Some(run) = sandbox.room.as_ref().map(|room| room.run.id.clone()) else { continue };
            followed
                .entry(run)
                .or_insert_with(|| tasks.spawn(follow(keepers.clone(), sandbox, runtime)).id());
        }
        tokio::select! {
            () = stop.told() => return,
            () = tokio::time::sleep(LOOK) => {}
            Some(ended) = tasks.join_next_with_id() => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                followed.retain(|_, task| *task != id);
            }
            event = event_rx.recv() => if matches!(event, Err(RecvError::Closed)) { return },
        }
    }
}

/// Returns the rooms with services, and their runtime folders.
async fn with_services(keepers: &Keepers) -> Vec<(SandboxRecord, PathBuf)> {
    let engine = keepers.engine.clone();
    let look = move || {
        let all = engine.sandboxes().unwrap_or_default().into_iter();
        let is_up = |sandbox: &SandboxRecord| {
            sandbox.room.as_ref().is_some_and(|room| room.wish != RoomWish::Stopped)
        };
        let found = all.filter(is_up).filter_map(|sandbox| {
            engine.stack_of(&sandbox).filter(|stack| !stack.services.is_empty())?;
            let runtime = engine.places(&sandbox).runtime;
            Some((sandbox, runtime))
        });
        found.collect()
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

/// Records every change of one room's services, until the room ends or does not answer.
async fn follow(keepers: Keepers, sandbox: SandboxRecord, runtime: PathBuf) {
    let timelines = keepers.timelines.clone();
    let (all, of) = (timelines.clone(), sandbox.clone());
    let known = tokio::task::spawn_blocking(move || last_records(&all, &of)).await;
    let mut known = known.unwrap_or_default();
    let mut after = None;
    loop {
        let Ok(room) = keepers.connections.of(&runtime).await else { break };
        let Ok(report) = room.services(after).await else { break };
        // Between two reports a service may have had several states.
        let between = match after {
            Some(seen) => room.service_changes(seen).await.unwrap_or_default(),
            None => Vec::new(),
        };
        after = Some(report.version);
        let until = report.version;
        let all = between.into_iter().filter(|one| one.version <= until).chain([report]);
        for report in all {
            let crashes = crashes(&known, &report);
            for draft in changes(&mut known, &report, HostClock.now()) {
                timelines.append(&sandbox, draft);
            }
            for what in crashes {
                suspect(&keepers.engine, &timelines, &sandbox, what);
            }
        }
    }
    let engine = keepers.engine.clone();
    let ended = move || {
        if engine.room_of(&sandbox).is_none() {
            timelines.end_services(&sandbox);
        }
    };
    tokio::task::spawn_blocking(ended).await.ok();
    tokio::time::sleep(REST).await;
}

/// Drafts the end of services whose last record says that they run.
pub(super) fn unfinished(timelines: &Timelines, sandbox: &SandboxRecord) -> Vec<Draft> {
    all_stopped(&mut last_records(timelines, sandbox), HostClock.now())
}

/// The last record of each service.
type Known = BTreeMap<String, ServiceBody>;

/// Reads the last recorded states of services.
fn last_records(timelines: &Timelines, sandbox: &SandboxRecord) -> Known {
    let Some(room) = &sandbox.room else { return Known::new() };
    let place = RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
    // Opened so that the next record can be appended.
    timelines.of(sandbox);
    let Ok(reader) = timelines.reader(&place) else { return Known::new() };
    let query = Query::parse("", Some(Kind::Service)).expect("nothing is a query");
    let now = HostClock.now();
    let selection =
        Selection { query, since: None, now, limit: SERVICES, direction: Direction::NewestFirst };
    let mut known = Known::new();
    for record in reader.records(&selection).unwrap_or_default() {
        if let Ok(body) = record.body::<ServiceBody>() {
            known.entry(body.name.clone()).or_insert(body);
        }
    }
    known
}

/// Drafts the changes since the last report, and remembers them.
fn changes(known: &mut Known, report: &StackReport, now: Timestamp) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for service in report.statuses() {
        let body = body(service);
        let before = known.insert(body.name.clone(), body.clone());
        if before.as_ref().is_some_and(|before| is_same(before, &body)) {
            continue;
        }
        // The exit of a single restart is in this record.
        let restarts = before.map_or(0, |before| body.restarts.saturating_sub(before.restarts));
        if restarts > 1 {
            drafts.push(unseen(&body.name, restarts - 1, now));
        }
        drafts.push(draft(&body, now));
    }
    drafts
}

/// Returns the services that crashed since the last report.
fn crashes(known: &Known, report: &StackReport) -> Vec<String> {
    let is_crash = |service: &&ServiceStatus| {
        let before = known.get(&service.name);
        let is_new = before.is_none_or(|before| {
            before.restarts != service.restarts || before.state != service.state
        });
        let failed = service.exit.as_ref().is_some_and(|exit| *exit != Exit::Code(0));
        let is_down = matches!(service.state, ServiceState::Failed | ServiceState::Restarting);
        let again = before.is_some_and(|before| service.restarts > before.restarts);
        !service.task && is_new && failed && (is_down || again)
    };
    let crashed = report.statuses().filter(is_crash);
    crashed.map(|service| format!("service `{}` crashed", service.name)).collect()
}

/// Drafts that services ended with their room.
fn all_stopped(known: &mut Known, now: Timestamp) -> Vec<Draft> {
    let is_over = |body: &ServiceBody| body.state.known().is_some_and(|state| !state.is_running());
    let running = known.values_mut().filter(|body| !is_over(body));
    let stopped = running.map(|body| {
        body.state = ServiceState::Stopped.into();
        (body.room_pid, body.health) = (None, None);
        Draft { summary: format!("{} stopped with its room", body.name), ..draft(body, now) }
    });
    stopped.collect()
}

fn is_same(before: &ServiceBody, body: &ServiceBody) -> bool {
    // The text of a probe may change with each answer, so it is ignored.
    ServiceBody { health: None, ..before.clone() } == ServiceBody { health: None, ..body.clone() }
}

fn body(service: &ServiceStatus) -> ServiceBody {
    ServiceBody {
        name: service.name.clone(),
        state: service.state.into(),
        room_pid: service.pid.and_then(|pid| u32::try_from(pid).ok()),
        restarts: service.restarts,
        exit: service.exit.as_ref().map(ToString::to_string),
        health: service.answers.last().map(|answer| answer.found.to_string()),
    }
}

fn draft(body: &ServiceBody, now: Timestamp) -> Draft {
    let how = match (&body.exit, &body.health) {
        (Some(exit), _) if body.room_pid.is_none() => format!(" ({exit})"),
        (_, Some(health)) => format!(" ({health})"),
        _ => String::new(),
    };
    let mut draft = Draft::of(now, format!("{} is {}{how}", body.name, body.state), body);
    draft.service = Some(body.name.clone());
    draft.process = body.room_pid.map(|room_pid| Process { room_pid, command: body.name.clone() });
    draft
}

/// Drafts that restarts happened between two reports.
fn unseen(service: &str, count: u32, now: Timestamp) -> Draft {
    let text = format!("{count} more restarts of `{service}` happened between two looks at it");
    gap(GapKind::Dropped, u64::from(count), text, now)
}

#[cfg(test)]
mod tests {
    use hothouse_model::stack::{
        ServiceReport,
        service::{Found, ProbeAnswer},
    };

    use super::*;

    fn service(state: ServiceState, pid: Option<i32>, restarts: u32) -> ServiceStatus {
        ServiceStatus { name: "web".into(), state, pid, restarts, ..ServiceStatus::default() }
    }

    fn summaries(known: &mut Known, status: ServiceStatus) -> Vec<String> {
        let service = ServiceReport { status, host_pid: None };
        let report = StackReport { version: 1, services: vec![service] };
        let drafts = changes(known, &report, Timestamp::UNIX_EPOCH);
        drafts.into_iter().map(|draft| draft.summary).collect()
    }

    #[test]
    fn every_change_has_a_record_and_what_stays_has_none() {
        let mut known = Known::new();
        let starting = service(ServiceState::Starting, Some(7), 0);
        assert_eq!(summaries(&mut known, starting.clone()), ["web is starting"]);
        assert_eq!(summaries(&mut known, starting), Vec::<String>::new());
        let mut ready = service(ServiceState::Ready, Some(7), 0);
        ready.answers = vec![ProbeAnswer::good(Found::Tcp { port: 80 })];
        assert_eq!(summaries(&mut known, ready.clone()), ["web is ready (tcp 80 open)"]);
        ready.answers.push(ProbeAnswer::good(Found::Notified));
        assert_eq!(summaries(&mut known, ready), Vec::<String>::new(), "only its probe said more");
        let mut failed = service(ServiceState::Failed, None, 0);
        failed.exit = Some(Exit::Code(3));
        assert_eq!(summaries(&mut known, failed), ["web is failed (exit 3)"]);
        assert_eq!(known["web"].exit.as_deref(), Some("exit 3"));
    }

    #[test]
    fn restarts_that_nobody_saw_are_a_gap() {
        let mut known = Known::new();
        summaries(&mut known, service(ServiceState::Ready, Some(7), 0));
        let once = summaries(&mut known, service(ServiceState::Ready, Some(8), 1));
        assert_eq!(once, ["web is ready"]);
        let often = summaries(&mut known, service(ServiceState::Ready, Some(12), 5));
        assert_eq!(often[0], "3 more restarts of `web` happened between two looks at it");
        assert_eq!(often[1], "web is ready");
    }

    #[test]
    fn services_end_with_their_room_once() {
        let mut known = Known::new();
        summaries(&mut known, service(ServiceState::Ready, Some(7), 0));
        let stopped = all_stopped(&mut known, Timestamp::UNIX_EPOCH);
        assert_eq!(stopped.len(), 1);
        assert_eq!((&stopped[0].body["state"], &stopped[0].process), (&"stopped".into(), &None));
        assert_eq!(all_stopped(&mut known, Timestamp::UNIX_EPOCH), []);
    }
}
