//! The stack of a sandbox: its services with every decision made, and how they stand.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// Where a room shows the data of its services, one folder each.
pub const DATA_INSIDE: &str = "/var/lib/hothouse";

/// Where a room shows the tree that a profile froze at `up`.
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

/// A service that runs on the host, and answers in the room on the same port of its loopback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedOrder {
    pub service: String,
    pub port: u16,
}

/// One service, with its references resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceOrder {
    pub name: String,
    pub run: Vec<String>,
    pub build: Option<Vec<String>>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    pub folder: PathBuf,
    pub task: bool,
    pub needs: Vec<NeedOrder>,
    pub restart: RestartOrder,
    pub stop_signal: i32,
    pub stop_grace: Duration,
    pub pty: bool,
    /// Absolute patterns of files whose change restarts it.
    pub watch: Vec<PathBuf>,
    pub probe: Option<ProbeOrder>,
    pub port: Option<u16>,
    /// The label in its URLs.
    pub app: Option<String>,
    /// Where others reach it.
    pub url: Option<String>,
    /// How people talk to it, if it is a database.
    pub database: Option<DatabaseOrder>,
}

/// A service that must come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedOrder {
    pub service: String,
    pub condition: NeedCondition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NeedCondition {
    Started,
    Ready,
    Completed,
}

/// When a service is started again, and how many times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartOrder {
    pub policy: RestartWhen,
    pub max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartWhen {
    Never,
    OnFailure,
    Always,
}

/// How to tell that a service is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeOrder {
    pub question: Question,
    pub interval: Duration,
    pub timeout: Duration,
    pub retries: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    Http {
        port: u16,
        path: String,
        /// The name that is asked for; none means `localhost` and the port.
        #[serde(default)]
        host: Option<String>,
    },
    Tcp {
        port: u16,
    },
    Exec {
        words: Vec<String>,
    },
    Log {
        pattern: String,
    },
    Notify,
}

/// The words with which people talk to a database, in its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseOrder {
    /// Opens its own shell.
    pub shell: Vec<String>,
    /// Prints its tables as `name<TAB>rows`, one a line.
    pub tables: Vec<String>,
}

/// A data folder that must be there before a service starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataOrder {
    pub service: String,
    /// What fills it, such as `postgres 15`.
    pub kind: String,
    pub folder: PathBuf,
    /// The data that a new folder begins as: made once, then copied.
    pub golden: PathBuf,
    /// The script that makes it, in a room; its folder is in `$DATA`.
    pub script: String,
}

/// What can be done with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceAction {
    Start,
    Stop,
    Restart,
    Signal(i32),
}

/// How the services of a room stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackReport {
    /// Grows with every change.
    pub version: u64,
    pub services: Vec<ServiceReport>,
}

/// How one service stands. Times count from the beginning of the room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReport {
    pub name: String,
    /// A word such as `ready`.
    pub state: String,
    pub pid: Option<u32>,
    pub room_pid: Option<u32>,
    pub restarts: u32,
    pub task: bool,
    /// Whether it waits for one that has failed.
    pub stuck: bool,
    pub needs: Vec<String>,
    /// How its first process ended last, in words.
    pub exit: Option<String>,
    /// The last answers of its probe, the newest last.
    pub answers: Vec<Answer>,
    pub wanted: Option<Duration>,
    pub started: Option<Duration>,
    pub ready: Option<Duration>,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub healthy: bool,
    pub text: String,
}

/// Whether a stack is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ready,
    /// Some still start.
    Pending,
    /// These will not start by themselves.
    Failed(Vec<String>),
}

impl ServiceReport {
    /// Returns whether nothing is wrong with it and nothing is awaited.
    pub fn is_settled(&self) -> bool {
        matches!(self.state.as_str(), "ready" | "completed" | "stopped")
    }
}

impl StackReport {
    /// Judges the start of a stack.
    pub fn verdict(&self) -> Verdict {
        let failed = self.services.iter().filter(|service| service.state == "failed");
        let failed: Vec<String> = failed.map(|service| service.name.clone()).collect();
        match () {
            () if !failed.is_empty() => Verdict::Failed(failed),
            () if self.services.iter().all(ServiceReport::is_settled) => Verdict::Ready,
            () => Verdict::Pending,
        }
    }

    /// Returns the chain of services that the start had to wait for, the last one first: each with
    /// the need that became ready last.
    pub fn critical_chain(&self) -> Vec<&ServiceReport> {
        let by_name = |name: &str| self.services.iter().find(|service| service.name == name);
        let mut next = self.services.iter().max_by_key(|service| service.ready);
        let mut chain: Vec<&ServiceReport> = Vec::new();
        while let Some(service) = next.filter(|service| {
            service.ready.is_some() && !chain.iter().any(|known| known.name == service.name)
        }) {
            chain.push(service);
            let needs = service.needs.iter().filter_map(|need| by_name(need));
            next = needs.max_by_key(|need| need.ready);
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, state: &str, needs: &[&str], ready: u64) -> ServiceReport {
        ServiceReport {
            name: name.into(),
            state: state.into(),
            needs: needs.iter().map(|need| (*need).into()).collect(),
            ready: (ready > 0).then(|| Duration::from_millis(ready)),
            ..ServiceReport::default()
        }
    }

    fn report(services: Vec<ServiceReport>) -> StackReport {
        StackReport { version: 1, services }
    }

    #[test]
    fn a_stack_is_ready_when_all_are_and_failed_when_one_is() {
        let of = |states: &[&str]| {
            report(states.iter().map(|state| service(state, state, &[], 1)).collect()).verdict()
        };
        assert_eq!(of(&[]), Verdict::Ready);
        assert_eq!(of(&["ready", "completed"]), Verdict::Ready);
        assert_eq!(of(&["ready", "starting"]), Verdict::Pending);
        assert_eq!(of(&["ready", "unhealthy"]), Verdict::Pending);
        assert_eq!(of(&["failed", "waiting"]), Verdict::Failed(vec!["failed".into()]));
    }

    #[test]
    fn the_critical_chain_follows_the_latest_needs() {
        let report = report(vec![
            service("db", "ready", &[], 80),
            service("cache", "ready", &[], 20),
            service("migrate", "completed", &["db"], 200),
            service("api", "ready", &["db", "cache", "migrate"], 300),
            service("worker", "ready", &["cache"], 40),
        ]);
        let chain: Vec<_> = report.critical_chain().iter().map(|s| s.name.as_str()).collect();
        assert_eq!(chain, ["api", "migrate", "db"]);
    }

    #[test]
    fn a_circle_ends() {
        let report =
            report(vec![service("a", "ready", &["b"], 2), service("b", "ready", &["a"], 1)]);
        assert_eq!(report.critical_chain().len(), 2);
    }
}
