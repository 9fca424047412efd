//! Tells the user that an agent waits for them, as they have chosen.
//!
//! The choice is a file of the user's own config folder, never the project's config: a command in it runs on the host.

use std::os::unix::fs::MetadataExt as _;

use hothouse_host::{Program, files};
use hothouse_model::SandboxRecord;

use crate::Engine;

/// The file beside the user's config: `desktop`, or `command` and a line of shell.
const FILE: &str = "notify";

/// How the user wants to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Notice {
    Desktop,
    Command(String),
}

/// Reads the choice; anything else is none. Pure.
fn choice(text: &str) -> Option<Notice> {
    let line =
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    match line.split_once(char::is_whitespace) {
        None if line == "desktop" => Some(Notice::Desktop),
        Some(("command", command)) => Some(Notice::Command(command.trim().to_owned())),
        _ => None,
    }
}

impl Engine {
    /// Tells that an agent waits. It is a courtesy: nothing depends on it.
    pub fn notify_waiting(&self, sandbox: &SandboxRecord, tool: &str, reason: &str) {
        let file = self.with.wall.agent_env.with_file_name(FILE);
        // A file that others can write is not the user's word.
        let is_own = std::fs::metadata(&file).is_ok_and(|found| found.mode() & 0o022 == 0);
        let text = files::read_capped(&file, 4096).ok().filter(|_| is_own);
        let notice = text.and_then(|text| choice(&String::from_utf8_lossy(&text)));
        let name = sandbox.name.to_string();
        // A tool may be a whole command, which an agent's config chose: it is an argument, never part of the line.
        let program = match notice {
            None => return,
            Some(Notice::Desktop) => {
                Program::new("notify-send").args([&format!("{name}: {tool} waits"), reason])
            }
            Some(Notice::Command(line)) => {
                Program::new("/bin/sh").args(["-c", &line, "notify", &name, tool, reason])
            }
        };
        if let Err(error) = program.leave() {
            tracing::warn!(%error, "the user could not be told that an agent waits");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_read() {
        for (text, want) in [
            ("desktop\n", Some(Notice::Desktop)),
            (
                "# mine\n\ncommand echo \"$1\" >> ~/waiting",
                Some(Notice::Command("echo \"$1\" >> ~/waiting".into())),
            ),
            ("", None),
            ("telegram", None),
            ("desktop now", None),
        ] {
            assert_eq!(choice(text), want, "{text}");
        }
    }
}
