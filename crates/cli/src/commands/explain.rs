//! `explain`: what a code means, and what to do about it.

use std::process::ExitCode;

use hothouse_model::{
    Failure, FailureKind,
    caveat::Class,
    policy::{Reason, ReasonCode},
};
use serde::Serialize;

use crate::{
    render::{Cell, table},
    ui::{Tone, Ui},
};

/// What is known of a code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Explanation {
    code: String,
    /// What has it: an error, a denied connection, or a caveat.
    of: &'static str,
    exit_code: Option<u8>,
    meaning: String,
    next: String,
}

/// Explains a code, or lists all of them.
pub(crate) fn run(ui: &Ui, code: Option<&str>) -> Result<ExitCode, Failure> {
    let all = all();
    let Some(code) = code else {
        match ui.json {
            true => ui.print_json(&all),
            false => {
                let row = |known: &Explanation| {
                    vec![
                        Cell::new(&known.code).tone(Tone::Strong),
                        Cell::new(known.of),
                        Cell::new(&known.meaning),
                    ]
                };
                ui.print(&table(ui, &["CODE", "OF", "MEANING"], all.iter().map(row).collect()));
            }
        }
        return Ok(ExitCode::SUCCESS);
    };
    let is_meant = |known: &&Explanation| {
        known.code == code || known.exit_code.is_some_and(|exit| exit.to_string() == code)
    };
    let Some(known) = all.iter().find(is_meant) else {
        let message = format!("there is no code `{code}`");
        return Err(Failure::new(FailureKind::NotFound, message)
            .hint("`hothouse explain` lists all of them"));
    };
    match ui.json {
        true => ui.print_json(known),
        false => {
            let exit =
                known.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
            ui.print(&format!(
                "{} ({}{exit})\n\n{}\n\n{}",
                known.code, known.of, known.meaning, known.next
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn all() -> Vec<Explanation> {
    let errors = FailureKind::ALL.into_iter().map(of_failure);
    let denials = ReasonCode::ALL.iter().map(|code| of_denial(*code));
    let caveats = Class::ALL.iter().map(|class| of_caveat(*class));
    errors.chain(denials).chain(caveats).collect()
}

fn of_failure(kind: FailureKind) -> Explanation {
    let (meaning, next) = match kind {
        FailureKind::Unmet => (
            "What was asked for did not hold: a failed check, a missing event, a timeout of `wait`.",
            "Look at what happened instead: `hothouse since MARK`, `hothouse timeline`.",
        ),
        FailureKind::Usage => {
            ("The command line is wrong.", "`hothouse help COMMAND` shows its arguments.")
        }
        FailureKind::Config => (
            "hothouse.toml, or another file of settings, is wrong.",
            "`hothouse config check` names every problem and its line.",
        ),
        FailureKind::NotFound => (
            "What was named does not exist.",
            "`hothouse list` names sandboxes, `hothouse status` services, `hothouse runs` runs.",
        ),
        FailureKind::Conflict => (
            "Something that exists, or runs, is in the way.",
            "The hint names it. Wait for the operation, or change what is there.",
        ),
        FailureKind::Host => (
            "This host, or this room, cannot do it.",
            "On a host `hothouse doctor` shows what is missing. In a room the hint has the command for your user.",
        ),
        FailureKind::Backend => (
            "What is behind the room refused or broke.",
            "`hothouse status` shows the room; `hothouse down` and `hothouse up` start a new one.",
        ),
        FailureKind::Internal => (
            "A mistake of Hothouse itself.",
            "`hothouse daemon status` names its log. Please report it.",
        ),
    };
    let code = serde_json::to_value(kind).ok();
    let code = code.and_then(|code| code.as_str().map(str::to_owned)).unwrap_or_default();
    let (meaning, next) = (meaning.to_owned(), next.to_owned());
    Explanation { code, of: "an error", exit_code: Some(kind.exit_code()), meaning, next }
}

fn of_denial(code: ReasonCode) -> Explanation {
    let meaning = match code {
        ReasonCode::DenyRule => Reason::DenyRule.to_string(),
        ReasonCode::NotListed => Reason::NotListed.to_string(),
        ReasonCode::BadName => "what the client names is not a host name".into(),
        ReasonCode::Port => "the port is allowed only if a rule names host and port".into(),
        ReasonCode::Protocol => "the client does not speak what its port expects".into(),
        ReasonCode::NoName => "the client does not name the host that it wants".into(),
        ReasonCode::LiteralAddress => Reason::Literal.to_string(),
        ReasonCode::NameMismatch => Reason::NotAnswered.to_string(),
        ReasonCode::HiddenName => Reason::HiddenName.to_string(),
        ReasonCode::PublicResolver => Reason::PublicResolver.to_string(),
        ReasonCode::NotPublic => "the address is not a public one".into(),
        ReasonCode::Request => Reason::Request.to_string(),
        ReasonCode::AmbiguousRequest => "the request can be read in two ways".into(),
        ReasonCode::NotTerminated => Reason::Unseen.to_string(),
        ReasonCode::Covered => "the address belongs to a host whose requests must be seen".into(),
        ReasonCode::Datagram => "datagrams pass only if a rule names host, port and udp".into(),
        ReasonCode::Sealed => Reason::Sealed.to_string(),
        ReasonCode::NoEcho => Reason::NoEcho.to_string(),
        ReasonCode::NestedTunnel => Reason::Nested.to_string(),
        ReasonCode::TwoNames => Reason::TwoNames.to_string(),
        ReasonCode::Slow => Reason::Slow.to_string(),
        ReasonCode::OverBudget => "the room has too many connections".into(),
        ReasonCode::Malformed => Reason::Malformed.to_string(),
    };
    let next = "`hothouse egress why HOST` tells which rule decided; `hothouse egress allow HOST` allows it, \
                or in a room `hothouse ask REASON --host HOST`.";
    let (code, next) = (code.as_str().to_owned(), next.to_owned());
    Explanation { code, of: "a denied connection", exit_code: None, meaning, next }
}

fn of_caveat(class: Class) -> Explanation {
    let meaning = match class {
        Class::Asleep => "the sandbox sleeps, and wakes with the next request or command",
        Class::Closed => "the room has no way out at the moment",
        Class::Died => "the room ended by itself",
        Class::Diverged => {
            "you and the agent both have commits; the agent's are on a branch of their own"
        }
        Class::LeftOut => "something of the configuration is left out here",
        Class::Limited => "something works less well here than elsewhere",
        Class::LiveKey => "a key of a live account would have reached the room",
        Class::LookClosely => "the changes have something to look at before they are merged",
        Class::Masked => "a secret file is hidden from the room",
        Class::NotImported => "commits of the room were refused",
        Class::NotMasked => "a secret file could not be hidden",
        Class::NotReadable => "the room cannot read a file of yours",
        Class::Pending => "the agent changed settings that wait for your approval",
        Class::RoomOnly => "the files of the worktree are visible in the room only",
        Class::SecretMissing => "a declared secret has no value",
        Class::SecretNarrowed => "a secret is used for fewer hosts than the agent's config names",
        Class::VariableMissing => "a variable of the configuration has no value",
    };
    let next = "`hothouse status` shows the caveat with its subject.".to_owned();
    let (code, meaning) = (class.as_str().to_owned(), meaning.to_owned());
    Explanation { code, of: "a caveat", exit_code: None, meaning, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained_once() {
        let all = all();
        for known in &all {
            assert!(!known.meaning.is_empty() && !known.next.is_empty(), "{}", known.code);
            let same = all.iter().filter(|other| other.code == known.code && other.of == known.of);
            assert_eq!(same.count(), 1, "{}", known.code);
        }
        assert!(all.len() > 40);
    }
}
