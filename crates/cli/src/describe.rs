//! One line for each command: how far it reaches, and who may use it.
//!
//! The rest of what is known of a command is in its arguments (`args`): name, purpose, parameters, examples.
//! From the two together come help, completions, the tools of MCP, skills and `docs/commands.md`.
//!
//! *To add a command to rooms and tools:* its line here. A command without one is refused in rooms and is
//! no tool; a test fails for it.

/// How far a command reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Risk {
    /// Changes nothing.
    Read,
    /// Changes its sandbox, in a way that the agent in it could as well.
    Drive,
    /// Changes which sandboxes there are, or the state of one from outside of its room.
    Host,
    /// As `Host`, and something is lost by it.
    Destroy,
    /// Is the user's to decide: what loosens the wall, leaves the room or reaches everything. Never a tool.
    Human,
    /// Needs no sandbox.
    Local,
}

impl Risk {
    /// Whether programs of a room may run it.
    pub(crate) fn is_for_rooms(self) -> bool {
        matches!(self, Self::Read | Self::Drive | Self::Local)
    }

    /// Returns the word for it in documentation.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Drive => "changes its sandbox",
            Self::Host => "changes sandboxes; not in rooms",
            Self::Destroy => "changes sandboxes, loses something; not in rooms",
            Self::Human => "your decision; not in rooms, never a tool",
            Self::Local => "needs no sandbox",
        }
    }
}

/// In which profile of MCP a command is a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Profile {
    /// In the small one, and so in both.
    Daily,
    Full,
    /// In none: it is interactive, endless, or of no use to a program.
    Never,
}

/// What a command prints with `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// One object of the API.
    One(&'static str),
    /// A list of them.
    Many(&'static str),
    /// An object that is described in `docs/commands.md` alone.
    Object,
    /// A list of such.
    Objects,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    /// Its names, such as `egress allow`.
    pub(crate) path: &'static str,
    pub(crate) risk: Risk,
    pub(crate) profile: Profile,
    pub(crate) output: Output,
}

use Output::{Many, Object, Objects, One};
use Profile::{Daily, Full, Never};
use Risk::{Destroy, Drive, Host, Human, Local, Read};

/// Every command, and some that do not exist in every build.
const ALL: &[(&str, Risk, Profile, Output)] = &[
    ("status", Read, Daily, One("SandboxView")),
    ("up", Drive, Daily, One("SandboxView")),
    ("down", Drive, Daily, One("SandboxView")),
    ("exec", Drive, Daily, Object),
    ("logs", Read, Daily, One("LogPage")),
    ("browse", Drive, Daily, Object),
    ("wait", Read, Daily, Object),
    ("since", Read, Daily, Object),
    ("emails", Read, Daily, Objects),
    ("errors", Read, Daily, Object),
    ("requests", Read, Daily, Objects),
    ("summary", Read, Daily, Object),
    ("snapshot", Drive, Daily, One("SnapshotView")),
    ("restore", Destroy, Daily, One("SnapshotView")),
    ("ask", Drive, Daily, One("AskView")),
    ("init", Human, Never, Object),
    ("stack list", Local, Never, Objects),
    ("list", Read, Full, Many("SandboxView")),
    ("fork", Host, Full, One("SandboxView")),
    ("adopt", Host, Full, One("SandboxView")),
    ("delete", Destroy, Full, Object),
    ("diff", Read, Full, Object),
    ("log", Read, Full, Object),
    ("promote", Human, Never, Object),
    ("compare", Host, Full, Object),
    ("keep", Host, Full, Object),
    ("undelete", Host, Full, Object),
    ("snapshots", Read, Full, Many("SnapshotView")),
    ("size", Read, Full, Many("SizeView")),
    ("clean", Destroy, Full, Objects),
    ("nuke", Human, Never, Object),
    ("pause", Host, Full, One("SandboxView")),
    ("resume", Host, Full, One("SandboxView")),
    ("shell", Drive, Never, Object),
    ("tmux", Host, Never, Object),
    ("ssh", Host, Never, Object),
    ("env", Read, Full, Object),
    ("start", Drive, Full, One("ServiceView")),
    ("stop", Drive, Full, One("ServiceView")),
    ("restart", Drive, Full, One("ServiceView")),
    ("signal", Drive, Full, One("ServiceView")),
    ("db", Drive, Full, Object),
    ("queue", Read, Full, Objects),
    ("queue list", Read, Full, Objects),
    ("queue drain", Drive, Full, Objects),
    ("queue retry", Drive, Full, Object),
    ("cron list", Read, Full, Objects),
    ("cron run", Drive, Full, Object),
    ("url", Read, Full, Object),
    ("open", Host, Never, Object),
    ("ports", Read, Full, Many("PortView")),
    ("ports release", Human, Never, Objects),
    ("expose", Human, Never, Object),
    ("egress log", Read, Full, Object),
    ("egress why", Read, Full, Object),
    ("egress learn", Read, Full, Objects),
    ("egress allow", Human, Never, Objects),
    ("secret set", Human, Never, Object),
    ("secret list", Human, Never, Objects),
    ("secret rm", Human, Never, Object),
    ("trust", Human, Never, Object),
    ("timeline", Read, Full, Object),
    ("mark", Drive, Full, Object),
    ("email", Read, Full, Object),
    ("analytics", Read, Full, Objects),
    ("webhook", Drive, Full, Objects),
    ("webhook listen", Drive, Never, Objects),
    ("webhooks", Read, Full, Objects),
    ("objects", Read, Full, Objects),
    ("flags", Read, Full, Many("FlagView")),
    ("flags set", Drive, Full, Many("FlagView")),
    ("flags unset", Drive, Full, Many("FlagView")),
    ("llm", Read, Full, Objects),
    ("integrations", Read, Full, Many("IntegrationView")),
    ("integration add", Drive, Full, Object),
    ("integration record", Human, Never, Object),
    ("routes", Read, Full, Objects),
    ("seeds", Read, Full, Object),
    ("seed", Drive, Full, Object),
    ("scenarios", Read, Full, Objects),
    ("smoke", Drive, Full, Object),
    ("prove", Host, Full, Object),
    ("auth link", Human, Never, One("AuthLinkView")),
    ("runs", Read, Full, Many("RunLineView")),
    ("verify", Read, Full, Object),
    ("events", Read, Never, Object),
    ("top", Read, Never, One("TopView")),
    ("ui", Human, Never, Object),
    ("asks", Read, Full, Many("AskView")),
    ("asks answer", Human, Never, One("AskView")),
    ("agent start", Human, Never, Object),
    ("agent loop", Human, Never, Object),
    ("agent stop", Human, Never, Object),
    ("agent resume", Human, Never, Object),
    ("agent list", Read, Full, Objects),
    ("agent logs", Read, Full, Object),
    ("agent attach", Human, Never, Object),
    ("agent login", Human, Never, Object),
    ("agent token", Human, Never, Object),
    ("race", Human, Never, Object),
    ("guard", Local, Never, Object),
    ("guard install", Local, Never, Object),
    ("guard uninstall", Local, Never, Object),
    ("audit", Read, Full, Objects),
    ("skills install", Local, Never, Object),
    ("skills list", Local, Never, Objects),
    ("mcp", Local, Never, Object),
    ("mcp install", Human, Never, Object),
    ("doctor", Human, Never, Object),
    ("config check", Local, Full, Object),
    ("config show", Local, Full, Objects),
    ("config schema", Local, Never, Object),
    ("config approve", Human, Never, Object),
    ("stack build", Human, Never, Object),
    ("pool create", Human, Never, Object),
    ("pool status", Human, Never, Object),
    ("daemon start", Human, Never, Object),
    ("daemon stop", Human, Never, Object),
    ("daemon status", Human, Never, Object),
    ("daemon run", Human, Never, Object),
    ("host", Human, Never, Object),
    ("explain", Local, Full, Object),
    ("version", Local, Never, Object),
    ("completions", Local, Never, Object),
    ("man", Local, Never, Object),
    ("edit", Host, Never, Object),
    ("help", Local, Never, Object),
];

/// Returns every description, the daily tools first.
pub(crate) fn all() -> impl Iterator<Item = Description> {
    let described = |&(path, risk, profile, output): &(&'static str, Risk, Profile, Output)| {
        Description { path, risk, profile, output }
    };
    ALL.iter().map(described)
}

/// Returns the description of a command.
pub(crate) fn find(path: &str) -> Option<Description> {
    all().find(|known| known.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that can be run, by its names.
    fn runnable(tree: &clap::Command, above: &str, into: &mut Vec<String>) {
        for one in tree.get_subcommands() {
            let path = format!("{above} {}", one.get_name()).trim().to_owned();
            if !one.is_subcommand_required_set() {
                into.push(path.clone());
            }
            runnable(one, &path, into);
        }
    }

    #[test]
    fn every_command_is_described_once() {
        let mut runs = Vec::new();
        runnable(&crate::command(), "", &mut runs);
        assert!(runs.len() > 50);
        let missing: Vec<_> = runs.iter().filter(|path| find(path).is_none()).collect();
        assert!(missing.is_empty(), "describe in `describe.rs`: {missing:?}");
        for known in all() {
            assert_eq!(all().filter(|other| other.path == known.path).count(), 1, "{}", known.path);
        }
    }

    #[test]
    fn what_loosens_or_leaves_is_not_for_rooms_and_no_tool() {
        for path in [
            "egress allow",
            "secret set",
            "secret list",
            "config approve",
            "trust",
            "promote",
            "nuke",
            "expose",
            "ui",
            "pool create",
            "daemon stop",
            "doctor",
            "asks answer",
        ] {
            let known = find(path).unwrap();
            assert!(!known.risk.is_for_rooms() && known.profile == Never, "{path}");
        }
        for path in ["delete", "fork", "adopt", "clean", "restore"] {
            assert!(!find(path).unwrap().risk.is_for_rooms(), "{path}");
        }
        for known in all().filter(|known| known.risk == Human) {
            assert_eq!(known.profile, Never, "{}", known.path);
        }
        let daily = all().filter(|known| known.profile == Daily).count();
        assert!((12..=16).contains(&daily), "{daily}");
    }
}
