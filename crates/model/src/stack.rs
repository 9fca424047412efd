//! The stack of a sandbox: its services with every decision made, and their state.

use std::path::PathBuf;

use hothouse_service::{ServiceSpec, ServiceState, ServiceStatus};
use serde::{Deserialize, Serialize};

pub use hothouse_service as service;

use crate::config::SinkRecipe;

/// Where a room mounts the data of its services, one folder each.
pub const DATA_INSIDE: &str = "/var/lib/hothouse";

/// Where a room mounts the tree that a profile froze at `up`.
pub const FROZEN_INSIDE: &str = "/srv/frozen";

/// All services of a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackOrder {
    pub profile: String,
    /// Holds one folder per service for its log.
    pub logs: PathBuf,
    pub services: Vec<ServiceOrder>,
    /// Services of the host that the room may reach.
    #[serde(default)]
    pub hosted: Vec<HostedOrder>,
}

/// A service that runs on the host, and is reachable in the room on the same port of its loopback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedOrder {
    pub service: String,
    pub port: u16,
}

/// One service: its declaration for room-init, and what else is known about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceOrder {
    #[serde(flatten)]
    pub spec: ServiceSpec,
    pub port: Option<u16>,
    /// The label in its URLs.
    pub app: Option<String>,
    /// The URL at which other programs reach it.
    pub url: Option<String>,
    /// How to open a client, if it is a database.
    pub database: Option<DatabaseOrder>,
    /// The kind of sink, if Hothouse itself answers on its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<SinkRecipe>,
}

impl ServiceOrder {
    pub fn name(&self) -> &str {
        &self.spec.name
    }
}

/// The argv of a database's clients, to run in its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseOrder {
    /// Opens an interactive shell.
    pub shell: Vec<String>,
    /// Prints its tables as `name<TAB>rows`, one per line.
    pub tables: Vec<String>,
}

/// A data folder that must exist before a service starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataOrder {
    pub service: String,
    /// What fills it, such as `postgres 15`.
    pub kind: String,
    pub folder: PathBuf,
    /// The initial data of a new folder: made once, then copied.
    pub golden: PathBuf,
    /// The script that makes it, in a room; its folder is in `$DATA`.
    pub script: String,
    /// The script that repairs a copy of a running service's data, run the same way.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settle: String,
    /// The archive to unpack, which the script finds as `/run/image.tar`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<PathBuf>,
    /// The layers of the stack with the programs that make it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<PathBuf>,
}

/// An action on a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceAction {
    Start,
    Stop,
    Restart,
    Signal(i32),
}

/// The state of a room's services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackReport {
    /// Increases with every change.
    pub version: u64,
    pub services: Vec<ServiceReport>,
}

/// A service as room-init reports it, plus what only the host knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReport {
    pub status: ServiceStatus,
    /// The pid on the host.
    pub host_pid: Option<u32>,
}

impl ServiceReport {
    /// Returns the pid in the room.
    pub fn room_pid(&self) -> Option<u32> {
        self.status.pid.and_then(|pid| u32::try_from(pid).ok())
    }
}

/// Whether a stack is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ready,
    /// Some are still starting.
    Pending,
    /// These will not start without help.
    Failed(Vec<String>),
}

impl StackReport {
    /// Returns the status of each service.
    pub fn statuses(&self) -> impl Iterator<Item = &ServiceStatus> {
        self.services.iter().map(|service| &service.status)
    }

    /// Evaluates the start of a stack.
    pub fn verdict(&self) -> Verdict {
        let failed = self.statuses().filter(|service| service.state == ServiceState::Failed);
        let failed: Vec<String> = failed.map(|service| service.name.clone()).collect();
        match () {
            () if !failed.is_empty() => Verdict::Failed(failed),
            () if self.statuses().all(|service| service.state.is_settled()) => Verdict::Ready,
            () => Verdict::Pending,
        }
    }

    /// Returns the chain of services that determined the duration of the start, last one first:
    /// each with the need that became ready last.
    pub fn critical_chain(&self) -> Vec<&ServiceStatus> {
        let by_name = |name: &str| self.statuses().find(|service| service.name == name);
        let mut next = self.statuses().max_by_key(|service| service.ready_ms);
        let mut chain: Vec<&ServiceStatus> = Vec::new();
        while let Some(service) = next.filter(|service| {
            service.ready_ms.is_some() && !chain.iter().any(|known| known.name == service.name)
        }) {
            chain.push(service);
            let needs = service.needs.iter().filter_map(|need| by_name(need));
            next = needs.max_by_key(|need| need.ready_ms);
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ServiceState::{Completed, Failed, Ready, Starting, Unhealthy, Waiting};

    fn service(name: &str, state: ServiceState, needs: &[&str], ready: u64) -> ServiceReport {
        let status = ServiceStatus {
            name: name.into(),
            state,
            needs: needs.iter().map(|need| (*need).into()).collect(),
            ready_ms: (ready > 0).then_some(ready),
            ..ServiceStatus::default()
        };
        ServiceReport { status, host_pid: None }
    }

    fn report(services: Vec<ServiceReport>) -> StackReport {
        StackReport { version: 1, services }
    }

    #[test]
    fn a_stack_is_ready_when_all_are_and_failed_when_one_is() {
        let of = |states: &[ServiceState]| {
            let stands = |state: &ServiceState| service(state.as_str(), *state, &[], 1);
            report(states.iter().map(stands).collect()).verdict()
        };
        assert_eq!(of(&[]), Verdict::Ready);
        assert_eq!(of(&[Ready, Completed]), Verdict::Ready);
        assert_eq!(of(&[Ready, Starting]), Verdict::Pending);
        assert_eq!(of(&[Ready, Unhealthy]), Verdict::Pending);
        assert_eq!(of(&[Failed, Waiting]), Verdict::Failed(vec!["failed".into()]));
    }

    #[test]
    fn the_critical_chain_follows_the_latest_needs() {
        let report = report(vec![
            service("db", Ready, &[], 80),
            service("cache", Ready, &[], 20),
            service("migrate", Completed, &["db"], 200),
            service("api", Ready, &["db", "cache", "migrate"], 300),
            service("worker", Ready, &["cache"], 40),
        ]);
        let chain: Vec<_> = report.critical_chain().iter().map(|s| s.name.as_str()).collect();
        assert_eq!(chain, ["api", "migrate", "db"]);
    }

    #[test]
    fn a_cycle_ends() {
        let report = report(vec![service("a", Ready, &["b"], 2), service("b", Ready, &["a"], 1)]);
        assert_eq!(report.critical_chain().len(), 2);
    }

    #[test]
    fn a_stack_that_an_earlier_build_wrote_is_read() {
        let written = r#"{"profile":"dev","logs":"/l","services":[{"name":"api","run":["sh"],"build":null,
            "env":{"A":"1"},"folder":"/w","task":false,"needs":[{"service":"db","condition":"ready"}],
            "restart":{"policy":"on-failure","max":5},"stop_signal":15,"stop_grace":{"secs":10,"nanos":0},
            "pty":false,"watch":["/w/*.js"],"probe":{"question":{"http":{"port":80,"path":"/"}},
            "interval":{"secs":0,"nanos":250000000},"timeout":{"secs":2,"nanos":0},"retries":3},
            "port":80,"app":"api","url":"https://x","database":null}],"hosted":[]}"#;
        let stack: StackOrder = serde_json::from_str(written).unwrap();
        let again: serde_json::Value = serde_json::from_str(written).unwrap();
        assert_eq!(serde_json::to_value(&stack).unwrap(), again);
        assert_eq!(stack.services[0].spec.stop_grace, Duration::from_secs(10));
    }
}
