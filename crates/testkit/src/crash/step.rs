//! One step: an operation or several at once, and a fault meanwhile.

use std::fmt;

/// A request to the binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Fork { new: String },
    ForkFrom { new: String, from: String, label: Option<String> },
    Up(String),
    Down(String),
    Pause(String),
    Resume(String),
    Rows { sandbox: String, first: u64, count: u64 },
    Commit { sandbox: String, subject: String },
    Configure(String),
    Fresh(String),
    Snapshot { sandbox: String, label: String },
    Restore { sandbox: String, label: String },
    Delete(String),
    Nuke,
    StopDaemon,
}

impl Operation {
    /// Returns the sandbox that it changes.
    pub(super) fn sandbox(&self) -> Option<&str> {
        match self {
            Self::Fork { new } | Self::ForkFrom { new, .. } => Some(new),
            Self::Up(name)
            | Self::Down(name)
            | Self::Pause(name)
            | Self::Resume(name)
            | Self::Configure(name)
            | Self::Fresh(name)
            | Self::Delete(name) => Some(name),
            Self::Rows { sandbox, .. }
            | Self::Commit { sandbox, .. }
            | Self::Snapshot { sandbox, .. }
            | Self::Restore { sandbox, .. } => Some(sandbox),
            Self::Nuke | Self::StopDaemon => None,
        }
    }

    /// Returns the sandbox that must exist for it.
    pub(super) fn needs(&self) -> Option<&str> {
        match self {
            Self::Fork { .. } => None,
            Self::ForkFrom { from, .. } => Some(from),
            other => other.sandbox(),
        }
    }

    /// Returns whether its exit code is that of a command in a room.
    pub(super) fn is_command(&self) -> bool {
        matches!(
            self,
            Self::Rows { .. } | Self::Commit { .. } | Self::Configure(_) | Self::Fresh(_)
        )
    }

    /// Returns the arguments for the binary.
    pub(super) fn words(&self, tree: Option<&str>) -> Vec<String> {
        let tree = tree.map(|tree| ["--tree", tree]);
        let tree: Vec<&str> = tree.iter().flatten().copied().collect();
        let exec = |name: &str, line: &str| {
            ["exec", "-w", name, "--", "sh", "-c", line].map(str::to_owned).to_vec()
        };
        let plain = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        match self {
            Self::Fork { new } => plain(&[&["fork", new][..], &tree].concat()),
            Self::ForkFrom { new, from, label } => {
                let from = match label {
                    Some(label) => format!("{from}@{label}"),
                    None => from.clone(),
                };
                plain(&["fork", new, "--from", &from])
            }
            Self::Up(name) => plain(&["up", "-w", name]),
            Self::Down(name) => plain(&["down", "-w", name]),
            Self::Pause(name) => plain(&["pause", "-w", name]),
            Self::Resume(name) => plain(&["resume", "-w", name]),
            Self::Rows { sandbox, first, count } => {
                exec(sandbox, &format!("exec python3 ledger.py add {first} {count}"))
            }
            Self::Commit { sandbox, subject } => exec(
                sandbox,
                &format!(
                    "echo {subject} >{subject} && git add {subject} && \
                     git -c user.name=c -c user.email=c@example.com commit -qm {subject}"
                ),
            ),
            Self::Configure(name) => exec(
                name,
                "grep -q later hothouse.toml && git checkout -q hothouse.toml || \
                 printf '[service.later]\\nrun = \"sleep 1000\"\\n' >>hothouse.toml",
            ),
            Self::Fresh(name) => {
                plain(&["exec", "-w", name, "--fresh", "--", "sh", "-c", "test -e README"])
            }
            Self::Snapshot { sandbox, label } => plain(&["snapshot", label, "-w", sandbox]),
            Self::Restore { sandbox, label } => plain(&["restore", label, "-w", sandbox]),
            Self::Delete(name) => plain(&["delete", name, "--force"]),
            Self::Nuke => plain(&["nuke", "--yes"]),
            Self::StopDaemon => plain(&["daemon", "stop"]),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { sandbox, first, count } => {
                write!(f, "rows {first}..{} in {sandbox}", first + count)
            }
            Self::Commit { sandbox, subject } => write!(f, "commit {subject} in {sandbox}"),
            Self::Configure(name) => write!(f, "edit the config of {name}"),
            Self::Fresh(name) => write!(f, "exec --fresh in {name}"),
            other => write!(f, "{}", other.words(None).join(" ")),
        }
    }
}

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    KillDaemon,
    KillLauncher,
    KillRoomInit,
    KillService,
    KillClient,
    /// The runtime folder is gone, as after a logout.
    RemoveRuntime,
    /// The daemon's own folder of sockets and rooms is gone.
    RemoveRooms,
    /// The commands have another runtime folder than before.
    OtherRuntime,
    /// The commands have no runtime folder, as under `su` or cron.
    NoRuntime,
    FullDisk,
    /// The commands are of a newer build.
    Upgrade,
    /// The daemon is asked to stop meanwhile.
    StopDaemon,
}

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// All of them start at the same time.
    pub(super) operations: Vec<Operation>,
    pub(super) fault: Option<Fault>,
    /// How long after the start of the operations the fault happens.
    pub(super) delay_ms: u64,
}

impl Step {
    /// Returns whether nothing interferes with its one operation.
    pub(super) fn is_calm(&self) -> bool {
        self.operations.len() == 1
            && matches!(
                self.fault,
                None | Some(Fault::OtherRuntime | Fault::NoRuntime | Fault::Upgrade)
            )
    }

    /// Returns whether an operation may end without output.
    pub(super) fn kills(&self) -> bool {
        matches!(
            self.fault,
            Some(
                Fault::KillDaemon
                    | Fault::KillLauncher
                    | Fault::KillRoomInit
                    | Fault::KillService
                    | Fault::KillClient
            )
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Vec<String> = self.operations.iter().map(ToString::to_string).collect();
        write!(f, "{}", operations.join(" + "))?;
        match self.fault {
            None => Ok(()),
            Some(
                fault @ (Fault::OtherRuntime
                | Fault::NoRuntime
                | Fault::Upgrade
                | Fault::FullDisk
                | Fault::RemoveRuntime
                | Fault::RemoveRooms),
            ) => {
                write!(f, "   [{fault:?}]")
            }
            Some(fault) => write!(f, "   [{fault:?} after {} ms]", self.delay_ms),
        }
    }
}
