//! Services of a native room: declared to room-init, which supervises them.

use std::{collections::BTreeSet, path::Path, time::Duration};

use hothouse_host::{files, logs};
use hothouse_model::stack::{ServiceAction, ServiceOrder, ServiceReport, StackOrder, StackReport};
use hothouse_room::{
    self as room, ClientError, RoomClient,
    wire::{CallRefusalKind, LogStart, ServiceCommand, ServiceStatus},
};

use super::{RoomFile, talk};
use crate::RoomError;

/// The stack order, in the runtime folder of its room.
const STACK: &str = "stack.json";

/// Declares services to a room, and starts them.
pub(super) fn supervise(runtime: &Path, stack: &StackOrder) -> Result<(), RoomError> {
    let text = serde_json::to_vec(stack).map_err(|error| RoomError::Told(error.to_string()))?;
    let known = talk(runtime, async |client: &RoomClient| client.services(None).await)?;
    let known: BTreeSet<String> = known.services.into_iter().map(|record| record.name).collect();
    let wanted: BTreeSet<&str> = stack.services.iter().map(ServiceOrder::name).collect();
    let gone: Vec<String> =
        known.iter().filter(|name| !wanted.contains(name.as_str())).cloned().collect();
    let mut told = Vec::new();
    for service in stack.services.iter().map(|service| &service.spec) {
        // A log that is being written already has its files, which must not be touched.
        let log = match known.contains(&service.name) {
            true => None,
            false => Some(logs::open(&stack.logs.join(&service.name))?),
        };
        told.push((service.clone(), log));
    }
    files::write_quick(&runtime.join(STACK), &text, 0o600)?;
    talk(runtime, async |client: &RoomClient| {
        for name in gone {
            client.command_service(Some(name), ServiceCommand::Remove).await?;
        }
        for (spec, log) in told {
            let (files, start) = log.map_or((Vec::new(), NO_LOG), |log| (log.files, log.start));
            client.declare(spec, start, &files).await?;
        }
        client.command_service(None, ServiceCommand::Start).await
    })
}

/// The start of a log that room-init is already writing.
const NO_LOG: LogStart = LogStart { segment: 0, offset: 0, index: 0, line: 0 };

/// Returns the stack that was declared to a room.
pub(super) fn stack(runtime: &Path) -> Option<StackOrder> {
    let text = files::read_text(&runtime.join(STACK)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Returns the state of the services; with `after`, once it has changed or the time is up.
pub(super) fn services(
    runtime: &Path,
    after: Option<u64>,
    patience: Duration,
) -> Result<StackReport, RoomError> {
    let file = RoomFile::alive(runtime)?;
    let report = talk(runtime, async |client: &RoomClient| {
        match tokio::time::timeout(patience, client.services(after)).await {
            Ok(report) => report,
            Err(_) => client.services(None).await,
        }
    })?;
    let pids = match report.services.iter().any(|service| service.pid.is_some()) {
        true => room::host_pids(&file.started.identity),
        false => Default::default(),
    };
    let services = report.services.into_iter();
    let services = services.map(|record| shown(record, |pid| pids.get(&pid).copied())).collect();
    Ok(StackReport { version: report.version, services })
}

/// Returns where the last start of each service begins in its log, as a line number.
pub(super) fn starts(runtime: &Path) -> Result<Vec<(String, u64)>, RoomError> {
    talk(runtime, async |client: &RoomClient| client.service_starts().await)
}

/// Performs an action on one service, or on all.
pub(super) fn act(
    runtime: &Path,
    service: Option<&str>,
    action: ServiceAction,
) -> Result<(), RoomError> {
    let command = match action {
        ServiceAction::Start => ServiceCommand::Start,
        ServiceAction::Stop => ServiceCommand::Stop,
        ServiceAction::Restart => ServiceCommand::Restart,
        ServiceAction::Signal(number) => ServiceCommand::Signal(number),
    };
    let asked = talk(runtime, async |client: &RoomClient| {
        client.command_service(service.map(str::to_owned), command).await
    });
    match asked {
        Err(RoomError::Talk(ClientError::Refused(refusal)))
            if refusal.kind == CallRefusalKind::UnknownService =>
        {
            Err(RoomError::NoService { service: service.unwrap_or_default().to_owned() })
        }
        other => other,
    }
}

/// Returns how long all services may take to stop, one after the other.
pub(super) fn grace(runtime: &Path) -> Duration {
    let services = stack(runtime).map(|stack| stack.services).unwrap_or_default();
    services.iter().map(|service| service.spec.stop_grace).sum::<Duration>().min(LONGEST_STOP)
}

/// After this time room-init itself stops waiting for its services.
const LONGEST_STOP: Duration = Duration::from_secs(120);

pub(super) fn shown(status: ServiceStatus, host_pid: impl Fn(u32) -> Option<u32>) -> ServiceReport {
    let room_pid = status.pid.and_then(|pid| u32::try_from(pid).ok());
    ServiceReport { host_pid: room_pid.and_then(host_pid), status }
}
