//! `secret set`, `secret list` and `secret rm`.

use std::{io::Read, process::ExitCode};

use hothouse_api::{
    route,
    secret::{Hidden, SecretBody, SecretQuery, SecretRemoveBody, SecretView},
};
use hothouse_host::terminal;
use hothouse_model::{Failure, FailureKind, secret::MOST_LENGTH};

use crate::{
    args::{SecretCommand, SecretRemoveArgs, SecretSetArgs},
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Runs a `secret` command.
pub(crate) fn run(session: &Session, ui: &Ui, command: SecretCommand) -> Result<ExitCode, Failure> {
    match command {
        SecretCommand::Set(args) => set(session, ui, args),
        SecretCommand::List => list(session, ui),
        SecretCommand::Rm(args) => remove(session, ui, args),
    }
}

fn set(session: &Session, ui: &Ui, args: SecretSetArgs) -> Result<ExitCode, Failure> {
    let elsewhere = args.from.as_deref().is_some_and(|from| from.contains(':'));
    let value = if elsewhere { None } else { read_value(ui, &args.name)? };
    let body = SecretBody {
        name: args.name,
        folder: session.folder_text()?,
        from: args.from,
        value: value.map(Hidden),
        hosts: args.host,
        everywhere: args.everywhere,
    };
    let set: SecretView = session.post(route::SECRETS, &session.operation(), &body)?;
    if ui.json {
        ui.print_json(&set);
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!("Set {} ({}).", set.name, set.source));
    if !set.declared {
        let name = &set.name;
        ui.say(&format!(
            "No config declares it yet: add `[secret.{name}]` with its `hosts` to hothouse.toml."
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the value: without echo from a terminal, otherwise all of standard input. Empty input
/// counts as no value.
pub(super) fn read_value(ui: &Ui, name: &str) -> Result<Option<String>, Failure> {
    let hidden = terminal::HiddenInput::enter();
    let mut text = String::new();
    let read = match &hidden {
        Some(_) => {
            ui.say(&format!("Value of {name} (not echoed):"));
            std::io::stdin().read_line(&mut text).map(drop)
        }
        None => {
            let most = MOST_LENGTH as u64 + 2;
            terminal::stdin().take(most).read_to_string(&mut text).map(drop)
        }
    };
    let wrong = |error| {
        Failure::of(FailureKind::Usage, &error).hint("a value is text: `secret set NAME < FILE`")
    };
    read.map_err(wrong)?;
    Ok((!text.trim().is_empty()).then_some(text))
}

fn list(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let query = SecretQuery { folder: session.folder_text()? };
    let all: Vec<SecretView> = session.query(route::SECRETS, &query)?;
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        ui.say("No secrets are declared or set here; `hothouse secret set NAME` sets one.");
        return Ok(ExitCode::SUCCESS);
    }
    let rows = all.iter().map(|secret| {
        let (state, tone) = match (&secret.missing, secret.declared) {
            (Some(_), _) => ("missing", Tone::Warning),
            (None, false) => ("unused", Tone::Faint),
            (None, true) => ("set", Tone::Good),
        };
        vec![
            Cell::new(&secret.name).tone(Tone::Strong),
            Cell::new(state).tone(tone),
            Cell::new(secret.source.to_string()),
            Cell::new(secret.scope.as_str()),
            Cell::new(secret.hosts.join(" ")),
        ]
    });
    ui.print(&table(ui, &["NAME", "STATE", "FROM", "SCOPE", "HOSTS"], rows.collect()));
    for missing in all.iter().filter_map(|secret| secret.missing.as_ref()) {
        ui.say(missing);
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(session: &Session, ui: &Ui, args: SecretRemoveArgs) -> Result<ExitCode, Failure> {
    let body = SecretRemoveBody {
        name: args.name,
        folder: session.folder_text()?,
        everywhere: args.everywhere,
    };
    let () = session.post(route::SECRETS_REMOVE, &session.operation(), &body)?;
    if ui.json {
        ui.print_json(&serde_json::json!({ "removed": body.name }));
    } else {
        ui.say(&format!(
            "Removed {}; running rooms keep its placeholder, which is no longer replaced.",
            body.name
        ));
    }
    Ok(ExitCode::SUCCESS)
}
