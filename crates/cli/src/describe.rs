//! One line for each command: its reach, and who may use it.
//!
//! Everything else about a command is in its arguments (`args`): name, purpose, parameters, examples; and in
//! `outputs.txt`: what it prints. Help, completions, MCP tools, skills, `schema/output.json` and `docs/commands.md`
//! are generated from these three.
//!
//! *To add a command to rooms and tools:* add its line here. A command without one is refused in rooms and is not a
//! tool; a test fails for it.

/// The reach of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Risk {
    /// Changes nothing.
    Read,
    /// Changes its sandbox, in ways that the agent in it could too.
    Drive,
    /// Changes which sandboxes exist, or the state of one from outside its room.
    Host,
    /// Like `Host`, and loses something.
    Destroy,
    /// Is the user's decision: loosens the wall, leaves the room or affects everything. Never a tool.
    Human,
    /// Needs no sandbox.
    Local,
}

impl Risk {
    /// Whether programs in a room may run it.
    pub(crate) fn is_for_rooms(self) -> bool {
        matches!(self, Self::Read | Self::Drive | Self::Local)
    }

    /// Returns its description for the documentation.
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

/// The MCP profile in which a command is a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Profile {
    /// In the small one, and therefore in both.
    Daily,
    Full,
    /// In none: it is interactive, endless, or useless to a program.
    Never,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    /// Its names, such as `egress allow`.
    pub(crate) path: &'static str,
    pub(crate) risk: Risk,
    pub(crate) profile: Profile,
}

use Profile::{Daily, Full, Never};
use Risk::{Destroy, Drive, Host, Human, Local, Read};

/// Commands without `--run`, because no run contains what they read; each with the reason.
#[cfg(test)]
const NOT_OF_A_RUN: [(&str, &str); 18] = [
    ("list", "which sandboxes there are"),
    ("runs", "which runs there are"),
    ("verify", "takes the run as its argument"),
    ("diff", "the worktree"),
    ("log", "the branch"),
    ("snapshots", "what can be restored now"),
    ("size", "the disk"),
    ("queue", "the broker of the room that is up"),
    ("queue list", "the broker of the room that is up"),
    ("cron list", "the files of the worktree"),
    ("url", "where an app is now"),
    ("ports", "which ports are reserved now"),
    ("egress why", "what the policy says now"),
    ("routes", "the sources of the worktree"),
    ("seeds", "the bundles of the config"),
    ("scenarios", "the scenarios of the config"),
    ("top", "what rooms use now"),
    ("events", "what happens from now on; `timeline` has what happened"),
];

/// Every command, including some that do not exist in every build.
const ALL: &[(&str, Risk, Profile)] = &[
    ("status", Read, Daily),
    ("up", Drive, Daily),
    ("down", Drive, Daily),
    ("exec", Drive, Daily),
    ("logs", Read, Daily),
    ("browse", Drive, Daily),
    ("wait", Read, Daily),
    ("since", Read, Daily),
    ("emails", Read, Daily),
    ("errors", Read, Daily),
    ("requests", Read, Daily),
    ("summary", Read, Daily),
    ("snapshot", Drive, Daily),
    ("restore", Destroy, Daily),
    ("ask", Drive, Daily),
    ("init", Human, Never),
    ("stack list", Human, Never),
    ("list", Read, Full),
    ("fork", Host, Full),
    ("adopt", Host, Full),
    ("delete", Destroy, Full),
    ("diff", Read, Full),
    ("log", Read, Full),
    ("promote", Human, Never),
    ("compare", Host, Full),
    ("keep", Host, Full),
    ("undelete", Host, Full),
    ("snapshots", Read, Full),
    ("size", Read, Full),
    ("clean", Destroy, Full),
    ("nuke", Human, Never),
    ("pause", Host, Full),
    ("resume", Host, Full),
    ("shell", Drive, Never),
    ("tmux", Host, Never),
    ("ssh", Host, Never),
    ("env", Read, Full),
    ("start", Drive, Full),
    ("stop", Drive, Full),
    ("restart", Drive, Full),
    ("signal", Drive, Full),
    ("db", Drive, Full),
    ("queue", Read, Full),
    ("queue list", Read, Full),
    ("queue drain", Drive, Full),
    ("queue retry", Drive, Full),
    ("cron list", Read, Full),
    ("cron run", Drive, Full),
    ("url", Read, Full),
    ("open", Host, Never),
    ("ports", Read, Full),
    ("ports release", Human, Never),
    ("expose", Human, Never),
    ("egress log", Read, Full),
    ("egress why", Read, Full),
    ("egress learn", Read, Full),
    ("egress allow", Human, Never),
    ("secret set", Human, Never),
    ("secret list", Human, Never),
    ("secret rm", Human, Never),
    ("trust", Human, Never),
    ("timeline", Read, Full),
    ("mark", Drive, Full),
    ("email", Read, Full),
    ("analytics", Read, Full),
    ("webhook", Drive, Full),
    ("webhook listen", Human, Never),
    ("webhooks", Read, Full),
    ("objects", Read, Full),
    ("flags", Read, Full),
    ("flags set", Drive, Full),
    ("flags unset", Drive, Full),
    ("llm", Read, Full),
    ("integrations", Read, Full),
    ("integration add", Drive, Full),
    ("integration record", Human, Never),
    ("routes", Read, Full),
    ("seeds", Read, Full),
    ("seed", Drive, Full),
    ("scenarios", Read, Full),
    ("smoke", Drive, Full),
    ("prove", Host, Full),
    ("auth link", Human, Never),
    ("runs", Read, Full),
    ("verify", Read, Full),
    ("events", Read, Never),
    ("top", Read, Never),
    ("ui", Human, Never),
    ("asks", Read, Full),
    ("asks answer", Human, Never),
    ("agent start", Human, Never),
    ("agent loop", Human, Never),
    ("agent stop", Human, Never),
    ("agent resume", Human, Never),
    ("agent list", Read, Full),
    ("agent logs", Read, Full),
    ("agent attach", Human, Never),
    ("agent login", Human, Never),
    ("agent token", Human, Never),
    ("race", Human, Never),
    ("guard", Local, Never),
    ("guard install", Local, Never),
    ("guard uninstall", Local, Never),
    ("audit", Read, Full),
    ("skills install", Local, Never),
    ("skills list", Local, Never),
    ("mcp", Local, Never),
    ("mcp install", Human, Never),
    ("doctor", Human, Never),
    ("config check", Local, Full),
    ("config show", Local, Full),
    ("config schema", Local, Never),
    ("config approve", Human, Never),
    ("stack build", Human, Never),
    ("stack rm", Human, Never),
    ("stack diff", Human, Never),
    ("pool create", Human, Never),
    ("pool status", Human, Never),
    ("daemon start", Human, Never),
    ("daemon stop", Human, Never),
    ("daemon status", Human, Never),
    ("daemon run", Human, Never),
    ("host", Human, Never),
    ("explain", Local, Full),
    ("version", Local, Never),
    ("completions", Local, Never),
    ("man", Local, Never),
    ("edit", Host, Never),
    ("help", Local, Never),
];

/// Returns every description, daily tools first.
pub(crate) fn all() -> impl Iterator<Item = Description> {
    let described = |&(path, risk, profile): &(&'static str, Risk, Profile)| Description {
        path,
        risk,
        profile,
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

    /// Collects every runnable command, by its names.
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
    fn whatever_reads_what_a_run_recorded_takes_a_run() {
        let tree = crate::command();
        for known in all().filter(|known| known.risk == Read) {
            let command = crate::tools::find(&tree, known.path);
            let takes = |command: &clap::Command| {
                command.get_arguments().any(|arg| arg.get_long() == Some("run"))
            };
            let is_other = NOT_OF_A_RUN.iter().any(|(path, _)| *path == known.path);
            let has_run = command.is_some_and(takes);
            assert!(has_run != is_other, "`{}` needs `--run`, or a reason why not", known.path);
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
