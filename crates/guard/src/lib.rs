//! Judges what a coding agent is about to do: allow, ask or deny, with a reason that the agent can act on.
//!
//! Pure on purpose: hook input is passed in as bytes, the file system as [`Files`], the environment as values. The
//! guard is advice for a well-meaning agent. It reads commands as a careful colleague would and can be fooled; the room
//! is the fence that cannot.
//!
//! - [`contract`]: the hook protocol of each tool, input and output
//! - [`action`]: the action of a tool call
//! - [`decision`]: verdicts, with severity, confidence and reason
//! - [`scene`]: the context of a call: the sandbox, its surroundings, and how paths resolve
//! - `judge`: what may be written and read
//! - `shell`: commands, by the grammar of bash
//! - `programs`: what programs do with their arguments
//! - `inline`: code in other languages, passed as an argument
//! - `secrets`: credentials in texts and files

pub mod action;
pub mod contract;
pub mod decision;
mod inline;
mod judge;
mod programs;
pub mod scene;
mod secrets;
mod shell;

pub use action::Action;
pub use contract::{Call, Vendor};
pub use decision::{Decision, Finding};
pub use hothouse_model::agent::{Confidence, Severity, Verdict};
pub use scene::{Files, Link, Mode, Scene};
pub use secrets::redacted;

/// Judges a tool call.
pub fn decide(call: &Call, scene: &Scene<'_>) -> Decision {
    let mut judge = judge::Judge::new(scene, call.folder.as_deref());
    match &call.action {
        Action::Write(paths) => paths.iter().for_each(|path| judge.write_text(path)),
        Action::Read(paths) => paths.iter().for_each(|path| judge.read_text(path)),
        Action::Shell { command, folder } => judge.shell(command, folder.as_deref()),
        Action::Argv { words, folder } => judge.argv(words, folder.as_deref()),
        Action::Fetch(url) => judge.fetch(url),
        Action::Harmless => {}
        Action::Unknown(what) => judge.unknown(what, "an unknown tool"),
    }
    judge.conclude()
}

/// Returns the decision for unreadable input.
pub fn unreadable(why: &str) -> Decision {
    Decision::of(vec![Finding {
        verdict: Verdict::Deny,
        severity: Severity::High,
        confidence: Confidence::High,
        target: String::new(),
        reason: format!(
            "the guard cannot read this hook input ({why}), so it denies the call; \
             check `hothouse guard install` against the version of your tool"
        ),
    }])
}
