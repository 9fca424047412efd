//! Probes what this host supports, for `hothouse doctor`: each finding contains what works, what is
//! missing, what that costs, and how to fix it.
//!
//! Features are tried rather than guessed from version numbers. Features that need new namespaces
//! are tried in a child ([`probe_child`]), because a process with threads cannot unshare.

mod child;
mod kernel;
mod parse;
mod programs;
mod rooms;
mod sys;
mod trees;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub use self::child::probe_child;
pub(crate) use self::parse::user_name;
use crate::files;

/// The hidden argument that leads to [`probe_child`].
pub const CHILD_ARGUMENT: &str = "probe-namespaces";

/// The timeout for answers from other programs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The timeout for the child. The first room on a host loads kernel modules, which takes seconds on
/// a slow machine.
const CHILD_PATIENCE: Duration = Duration::from_secs(30);

/// What to probe, and with what.
#[derive(Clone, Debug)]
pub struct ProbeSpec {
    /// The folder for sandboxes, which need not exist yet.
    pub folder: PathBuf,
    /// The value of `PATH`.
    pub search_path: OsString,
    /// The value of `XDG_RUNTIME_DIR`, where rootless engines keep their sockets.
    pub runtime_folder: Option<PathBuf>,
    /// The program and arguments that run [`probe_child`].
    pub child: Vec<OsString>,
    /// The daemon that starts the rooms, if it is running: its control group decides about their limits.
    pub daemon: Option<u32>,
}

impl ProbeSpec {
    /// Creates the spec for sandboxes in `folder`, with our own program as the child.
    pub fn new(folder: &Path, search_path: OsString, runtime_folder: Option<PathBuf>) -> Self {
        let child = vec!["/proc/self/exe".into(), CHILD_ARGUMENT.into()];
        Self { folder: folder.to_owned(), search_path, runtime_folder, child, daemon: None }
    }
}

/// Whether a feature can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingState {
    Works,
    /// Usable in part, or with a weaker replacement.
    Limited,
    Missing,
}

/// One line of the doctor's report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    pub id: String,
    pub title: String,
    pub state: FindingState,
    /// What was found.
    pub detail: String,
    /// What is lost without it.
    pub costs: Option<String>,
    /// The exact command or setting that fixes it.
    pub fix: Option<String>,
}

impl Finding {
    fn works(id: &str, title: &str, detail: impl Into<String>) -> Self {
        let state = FindingState::Works;
        Self {
            id: id.into(),
            title: title.into(),
            state,
            detail: detail.into(),
            costs: None,
            fix: None,
        }
    }

    fn limited(id: &str, title: &str, detail: impl Into<String>, costs: &str) -> Self {
        let state = FindingState::Limited;
        Self { state, costs: Some(costs.into()), ..Self::works(id, title, detail) }
    }

    fn missing(id: &str, title: &str, detail: impl Into<String>, costs: &str) -> Self {
        Self { state: FindingState::Missing, ..Self::limited(id, title, detail, costs) }
    }

    fn fixed_by(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// Probes the host and returns one finding per feature, always the same features in the same order.
pub fn probe_host(spec: &ProbeSpec) -> Vec<Finding> {
    let ground = trees::Ground::make(&spec.folder);
    let report = child::ask(spec, ground.folder());
    let mut findings = vec![
        kernel::version(),
        rooms::user_namespaces(&report),
        rooms::uid_ranges(spec),
        rooms::overlay(&report, &ground),
        trees::btrfs(&ground),
        trees::reflink(&ground),
        rooms::idmapped_mounts(&report),
        rooms::packet_rules(&report),
        rooms::link(&report),
        rooms::ping(),
        kernel::cgroups(spec.daemon),
        kernel::logout(spec.daemon),
        kernel::landlock(),
        kernel::seccomp(),
        kernel::apparmor(),
        kernel::inotify(),
    ];
    findings.extend(programs::findings(spec));
    findings
}

/// Reads a small file under `/proc`, `/sys` or `/etc`; an unreadable one counts as empty.
fn text_of(path: impl AsRef<Path>) -> String {
    let bytes = files::read_capped(path.as_ref(), 1 << 20).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses a script in place of the child. The real one needs a process without threads, which a
    /// test is not, and is covered by the binary's tests.
    fn spec(folder: &Path, child: &str) -> ProbeSpec {
        let child = ["/bin/sh", "-c", child].map(OsString::from).to_vec();
        ProbeSpec { child, ..ProbeSpec::new(folder, "/bin:/usr/bin".into(), None) }
    }

    fn state_of(findings: &[Finding], id: &str) -> FindingState {
        findings.iter().find(|finding| finding.id == id).expect("every feature has a finding").state
    }

    #[test]
    fn every_feature_has_one_finding_in_a_fixed_order() {
        let folder = tempfile::tempdir().unwrap();
        let findings = probe_host(&spec(folder.path(), "echo user ok"));
        let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "kernel",
                "user-namespaces",
                "uid-ranges",
                "overlay",
                "btrfs",
                "reflink",
                "idmapped-mounts",
                "packet-rules",
                "room-link",
                "ping",
                "cgroups",
                "logout",
                "landlock",
                "seccomp",
                "apparmor",
                "inotify",
                "git",
                "chromium",
                "docker",
                "incus",
                "ssh",
                "gh",
                "bwrap",
            ]
        );
        for finding in &findings {
            let good = finding.state == FindingState::Works;
            assert_eq!(good, finding.costs.is_none(), "{finding:?}");
        }
    }

    #[test]
    fn a_probe_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        probe_host(&spec(
            &folder.path().join("not/there/yet"),
            "cd $0; mkdir -p work/work; chmod 0 work/work",
        ));
        assert_eq!(files::list(folder.path()).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_the_child_says_is_what_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo user ok; echo network ok; echo overlay no; echo done; cat";
        let findings = probe_host(&spec(folder.path(), script));
        assert_eq!(state_of(&findings, "user-namespaces"), FindingState::Works);
        assert_eq!(state_of(&findings, "overlay"), FindingState::Missing);
    }

    #[test]
    fn a_feature_whose_child_says_nothing_does_not_work() {
        let folder = tempfile::tempdir().unwrap();
        let silent = ProbeSpec { child: Vec::new(), ..spec(folder.path(), "") };
        for spec in [silent, spec(folder.path(), "exit 3")] {
            let findings = probe_host(&spec);
            assert_eq!(state_of(&findings, "user-namespaces"), FindingState::Limited);
        }
    }
}
