//! Shells that belong to no client: a page of the dashboard opens one, shows it and returns to it.

use hothouse_api::exec::{RunAsk, Target, TerminalAsk};
use hothouse_backend::connection::{ExecId, ExecRecord};
use hothouse_model::{Failure, FailureKind, SandboxRecord};

use super::{HANGUP, refusal, start, tell_end};
use crate::Daemon;

/// The id prefix of such shells.
const PREFIX: &str = "page-";

/// The maximum number per room.
const MOST: usize = 4;

/// The initial size, until the user types.
const SIZE: (u16, u16) = (30, 110);

/// Creates the id of a new shell.
pub(crate) fn new_id() -> String {
    format!("{PREFIX}{}", hothouse_model::id::hex(&hothouse_host::random::bytes::<4>()))
}

/// Whether an id belongs to a page's shell.
pub(crate) fn is_own(exec: &str) -> bool {
    let digits = exec.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Starts a shell with an id from [`new_id`]. It outlives its client.
pub(crate) async fn open(
    daemon: &Daemon,
    sandbox: &SandboxRecord,
    exec: String,
) -> Result<(), Failure> {
    if !is_own(&exec) {
        return Err(Failure::new(FailureKind::Usage, "the shell has no proper name"));
    }
    let name = Some(format!("{}/{}", sandbox.project, sandbox.name));
    let words = ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l"];
    let run = RunAsk {
        target: Target { sandbox: name, folder: "/".to_owned(), exec },
        words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        root: false,
        fresh: false,
        service: None,
        folder: None,
        database: None,
        terminal: Some(TerminalAsk {
            rows: SIZE.0,
            columns: SIZE.1,
            kind: "xterm-256color".to_owned(),
        }),
    };
    if opened(daemon, sandbox).await >= MOST {
        let message = format!("the sandbox has {MOST} shells of pages already");
        return Err(Failure::new(FailureKind::Conflict, message).hint("close one of them"));
    }
    let mut running = start(daemon, run).await?;
    running.streams.0.clear();
    if let Some(note) = running.note.take() {
        tell_end(daemon, &running, note);
    }
    Ok(())
}

/// Ends a shell that a page opened; refuses any other command.
pub(crate) async fn close(
    daemon: &Daemon,
    sandbox: &SandboxRecord,
    exec: String,
) -> Result<(), Failure> {
    if !is_own(&exec) {
        return Err(Failure::new(FailureKind::Usage, "only a shell of a page is closed from one"));
    }
    let exec = ExecId(exec);
    let room = crate::dashboard::room_of(daemon, sandbox).await?;
    room.signal(exec.clone(), HANGUP).await.map_err(|error| refusal(&error, &exec))
}

async fn opened(daemon: &Daemon, sandbox: &SandboxRecord) -> usize {
    let Ok(room) = crate::dashboard::room_of(daemon, sandbox).await else { return 0 };
    let is_open = |record: &&ExecRecord| record.exit.is_none() && is_own(&record.id.0);
    room.execs().await.map_or(0, |all| all.iter().filter(is_open).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_pages_are_theirs() {
        assert!(is_own(&new_id()));
        for other in
            ["", "page-", "page-xyzxyzxy", "agent-1-1", "page-123456789", "x-page-12345678"]
        {
            assert!(!is_own(other), "{other}");
        }
    }
}
