//! Commands in a room: those reserved for the user are refused, with the command to run on the host.
//!
//! The daemon refuses the same requests anyway; here the refusal can name the exact command line.

use std::ffi::OsString;

use hothouse_api::{SandboxView, route, sandbox::FindQuery};
use hothouse_model::{Failure, FailureKind};

use crate::{args, describe, session::Session};

/// Refuses a command that a room may not run.
pub(crate) fn check(session: &Session, arguments: &[OsString]) -> Result<(), Failure> {
    let path = args::path_of(arguments);
    if path.is_empty() || describe::find(&path).is_some_and(|known| known.risk.is_for_rooms()) {
        return Ok(());
    }
    // Used only to name the sandbox; if the daemon is away, the refusal is the same without the name.
    let query = FindQuery { sandbox: None, folder: session.folder_text().unwrap_or_default() };
    let own = session.query_if_running::<SandboxView>(route::SANDBOX_FIND, &query).ok().flatten();
    let line = host_line(arguments, &path, own.as_ref().map(|own| own.name.as_str()));
    Err(refusal(&path, &line))
}

/// Returns the refusal for a part of a command that a room may not run.
pub(crate) fn refusal(command: &str, line: &str) -> Failure {
    let message = format!("`hothouse {command}` is not for rooms: it is for your user to decide");
    Failure::new(FailureKind::Host, message)
        .hint(format!("ask your user to run, on the host: `{line}`"))
        .hint("`hothouse ask REASON` puts the request in front of them")
}

/// Returns the command line for the host: the same words, with the sandbox if the command takes one.
fn host_line(arguments: &[OsString], path: &str, sandbox: Option<&str>) -> String {
    let words: Vec<String> =
        arguments.iter().skip(1).map(|word| quoted(&word.to_string_lossy())).collect();
    let is_named = |name: &str| words.iter().any(|word| word == "-w" || word == name);
    let named = sandbox.filter(|name| args::takes_sandbox(path) && !is_named(name));
    let named = named.map(|name| format!(" -w {name}")).unwrap_or_default();
    format!("hothouse {}{named}", words.join(" "))
}

/// Quotes a word for a shell if necessary.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_for_the_host_is_the_same_command_for_the_same_sandbox() {
        let line = |text: &str, sandbox| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            host_line(&words, &args::path_of(&words), sandbox)
        };
        assert_eq!(
            line("hothouse egress allow api.example.com", Some("agent-a")),
            "hothouse egress allow api.example.com -w agent-a"
        );
        assert_eq!(line("hothouse nuke --yes", Some("agent-a")), "hothouse nuke --yes");
        assert_eq!(line("hothouse delete a;reboot", None), "hothouse delete 'a;reboot'");
    }
}
