//! The help of `hothouse` itself: the daily commands with `-h`, all of them by purpose with `--help`.

use std::{collections::BTreeMap, ffi::OsString};

use clap::Command;

/// Every command, grouped by purpose.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Sandboxes",
        &[
            "fork",
            "list",
            "status",
            "top",
            "adopt",
            "diff",
            "log",
            "promote",
            "compare",
            "keep",
            "snapshot",
            "snapshots",
            "restore",
            "delete",
            "undelete",
            "clean",
            "size",
            "nuke",
        ],
    ),
    ("Rooms", &["up", "down", "pause", "resume", "exec", "shell", "tmux", "ssh", "env", "edit"]),
    ("Services", &["logs", "start", "stop", "restart", "signal", "db", "queue", "cron"]),
    ("Network", &["url", "open", "ports", "expose", "egress", "secret", "trust"]),
    (
        "Evidence",
        &[
            "timeline",
            "since",
            "mark",
            "wait",
            "requests",
            "emails",
            "email",
            "errors",
            "analytics",
            "webhook",
            "webhooks",
            "objects",
            "flags",
            "llm",
            "integrations",
            "integration",
            "routes",
            "seeds",
            "seed",
            "scenarios",
            "smoke",
            "prove",
            "browse",
            "auth",
            "summary",
            "runs",
            "verify",
            "events",
            "ui",
        ],
    ),
    ("Agents", &["agent", "race", "guard", "audit", "skills", "mcp", "ask", "asks"]),
    (
        "Set-up",
        &[
            "init",
            "doctor",
            "config",
            "stack",
            "pool",
            "daemon",
            "host",
            "explain",
            "completions",
            "man",
            "version",
            "help",
        ],
    ),
];

/// The commands for everyday use.
const DAILY: [&str; 15] = [
    "fork", "up", "status", "list", "exec", "shell", "logs", "open", "timeline", "diff",
    "snapshot", "promote", "down", "delete", "doctor",
];

const OPTIONS: &str = "\
Options of every command:
      --json     Print JSON on standard output, errors included
  -q, --quiet    Print only results
  -v, --verbose  Print more about what happens
  -h, --help     Print help: -h the daily commands, --help all of them
  -V, --version  Print the version";

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 usage, 3 config, 4 not found, 5 conflict,
            6 not possible on this host, 7 backend, 70 internal.";

/// Returns which help of `hothouse` itself a command line requests; `None` if it names a command.
pub(super) fn asked(arguments: &[OsString]) -> Option<Extent> {
    let mut extent = None;
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        match word {
            "-h" => extent = extent.or(Some(Extent::Daily)),
            "--help" | "help" => extent = Some(Extent::All),
            "--json" | "-q" | "--quiet" | "-v" | "--verbose" => {}
            _ => return None,
        }
    }
    extent
}

/// How much help to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Daily,
    All,
}

/// Renders the help.
pub(super) fn text(tree: &Command, extent: Extent) -> String {
    let about: BTreeMap<String, String> = tree
        .get_subcommands()
        .map(|one| (one.get_name().to_owned(), one.get_about().unwrap_or_default().to_string()))
        .collect();
    let line = |name: &&str| about.get(*name).map(|about| entry(name, about));
    let intro = "Gives every coding agent its own universe for a repository.\n\n\
                 Usage: hothouse [OPTIONS] [COMMAND]";
    let mut parts = vec![intro.to_owned()];
    match extent {
        Extent::Daily => {
            let lines: Vec<_> = DAILY.iter().filter_map(line).collect();
            parts.push(format!("Every day:\n{}", lines.join("\n")));
            parts.push(OPTIONS.to_owned());
            parts.push(
                "`hothouse --help` lists all commands, `hothouse help COMMAND` explains one."
                    .to_owned(),
            );
        }
        Extent::All => {
            for (group, names) in GROUPS {
                let lines: Vec<_> = names.iter().filter_map(line).collect();
                if !lines.is_empty() {
                    parts.push(format!("{group}:\n{}", lines.join("\n")));
                }
            }
            parts.push(OPTIONS.to_owned());
            parts.push(EXIT_CODES.to_owned());
        }
    }
    parts.join("\n\n")
}

/// The width of help, and the column at which the purpose of a command begins.
const WIDTH: usize = 80;
const INDENT: usize = 15;

/// Renders one command and its purpose, wrapped between words.
fn entry(name: &str, about: &str) -> String {
    let mut text = format!("  {name:<width$}", width = INDENT - 2);
    let mut column = INDENT;
    for (at, word) in about.split(' ').enumerate() {
        let length = word.chars().count();
        if at > 0 && column + 1 + length > WIDTH {
            text.push_str(&format!("\n{:INDENT$}", ""));
            column = INDENT;
        } else if at > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_the_daily_ones_exist() {
        let tree = super::super::command();
        for name in tree.get_subcommands().map(clap::Command::get_name) {
            let count =
                GROUPS.iter().flat_map(|(_, names)| *names).filter(|one| **one == name).count();
            assert_eq!(count, 1, "{name}");
        }
        let lines = text(&tree, Extent::Daily);
        let all = text(&tree, Extent::All);
        assert!(all.lines().all(|line| line.chars().count() <= WIDTH), "{all}");
        for name in DAILY {
            assert!(lines.contains(&format!("\n  {name} ")), "{name}");
        }
    }

    #[test]
    fn help_of_a_command_is_that_commands_own() {
        let asked = |line: &str| asked(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(asked("hothouse -h"), Some(Extent::Daily));
        assert_eq!(asked("hothouse --help"), Some(Extent::All));
        assert_eq!(asked("hothouse help --json"), Some(Extent::All));
        assert_eq!(asked("hothouse fork --help"), None);
        assert_eq!(asked("hothouse help fork"), None);
        assert_eq!(asked("hothouse"), None);
    }
}
