//! `flags`, `flags set` and `flags unset`.

use std::process::ExitCode;

use hothouse_api::{
    flag::{FlagBody, FlagQuery, FlagView},
    route,
};
use hothouse_model::{Failure, flag::typed_value};
use serde_json::Value;

use super::{
    past::Past,
    timeline::{checked, cut},
};
use crate::{
    args::{FlagsArgs, FlagsCommand, Which, WhichRun},
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Runs a `flags` command.
pub(crate) fn run(session: &Session, ui: &Ui, args: FlagsArgs) -> Result<ExitCode, Failure> {
    match args.command {
        None => list(session, ui, args.run),
        Some(FlagsCommand::Set { key, value, which }) => {
            set(session, ui, either(which, args.run.which), key, Some(typed_value(&value)))
        }
        Some(FlagsCommand::Unset { key, which }) => {
            set(session, ui, either(which, args.run.which), key, None)
        }
    }
}

/// Accepts `-w` before the verb or after it.
fn either(inner: Which, outer: Which) -> Which {
    if inner.sandbox.is_some() { inner } else { outer }
}

fn list(session: &Session, ui: &Ui, of: WhichRun) -> Result<ExitCode, Failure> {
    let flags: Vec<FlagView> = match &of.run {
        Some(run) => Past::find(session, run)?.flags(),
        None => {
            let query = FlagQuery { sandbox: checked(of.which)?, folder: session.folder_text()? };
            session.query(route::FLAGS, &query)?
        }
    };
    match ui.json {
        true => ui.print_json(&flags),
        false if flags.is_empty() => ui.say("No flags."),
        false => {
            ui.print(&table(ui, &["KEY", "VALUE", "DEFAULT", ""], flags.iter().map(row).collect()))
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn set(
    session: &Session,
    ui: &Ui,
    which: Which,
    key: String,
    value: Option<Value>,
) -> Result<ExitCode, Failure> {
    let (sandbox, folder) = (checked(which)?, session.folder_text()?);
    let unset = value.is_none();
    let body =
        FlagBody { sandbox, folder, key: key.clone(), value: value.unwrap_or_default(), unset };
    let flags: Vec<FlagView> = session.post(route::FLAGS, &session.operation(), &body)?;
    let found = flags.iter().find(|flag| flag.key == key);
    match found {
        _ if ui.json => ui.print_json(&found),
        Some(flag) if flag.pinned => ui.say(&format!("Pinned {key} to {}.", flag.value)),
        Some(flag) => ui.say(&format!("{key} is {} again, as the config says.", flag.value)),
        None => ui.say(&format!("{key} is not set any more.")),
    }
    Ok(ExitCode::SUCCESS)
}

fn row(flag: &FlagView) -> Vec<Cell> {
    let shown = |value: &Value| if value.is_null() { "-".into() } else { cut(&value.to_string()) };
    let tone = if flag.pinned { Tone::Strong } else { Tone::Faint };
    vec![
        Cell::new(&flag.key),
        Cell::new(shown(&flag.value)).tone(tone),
        Cell::new(shown(&flag.default)).tone(Tone::Faint),
        Cell::new(if flag.pinned { "pinned" } else { "" }),
    ]
}
