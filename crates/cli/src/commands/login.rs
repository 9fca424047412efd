//! `agent login`: lets rooms use a login of this host without holding it.
//!
//! The login becomes a secret in the user's own config. This program reads its value from the tool's own files each
//! time the wall needs it. So a login that the tool renews on the host is renewed for every room. An OAuth login that
//! is about to expire is renewed here, on the host.

mod found;
mod grant;
mod renew;

use std::process::ExitCode;

use hothouse_host::{Clock, clock::HostClock, files, process};
use hothouse_model::{Explain, Failure, FailureKind};
use serde_json::json;

use self::found::{Found, Login, find};
use crate::{
    Surroundings,
    args::{LoginArgs, LoginTool},
    entry,
    session::Session,
    ui::Ui,
};

/// Makes a tool's login available to rooms, or revokes it.
pub(crate) fn login(
    session: &Session,
    ui: &Ui,
    args: &LoginArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let file = session.folders.user_config();
    let text = match files::exists(&file) {
        true => files::read_text(&file).map_err(|error| error.failure())?,
        false => String::new(),
    };
    let login = Login::of(args.tool);
    if args.remove {
        let new =
            login.names().fold(text.clone(), |text, name| entry::take_toml(&text, &table(name)));
        return changed(
            ui,
            &file,
            &text,
            &new,
            &json!({ "tool": login.tool, "removed": new != text }),
            "no longer",
        );
    }
    let found = value(args.tool, session, surroundings)?;
    let hosts = found.hosts.join(", ");
    ui.say(&format!("Found the login of {}: {}.", login.tool, found.origin));
    ui.say(&format!(
        "It lets the agents of every room act as you towards {hosts}, and no other host."
    ));
    ui.say(&format!(
        "Rooms get a placeholder in {}; the wall puts the value into requests to {hosts} alone.",
        found.variable
    ));
    if let Some(expires) = found.expires {
        let renewed = if found.grant.is_some() { "; it is renewed on this host" } else { "" };
        ui.say(&format!("The token is valid until {expires}{renewed}."));
    }
    if !args.yes && ui.can_ask() && ui.ask("Let every room use it?") != Some(true) {
        return Err(Failure::new(FailureKind::Conflict, "nothing was changed"));
    }
    let program = process::executable()
        .and_then(|path| path.to_str().map(str::to_owned))
        .unwrap_or_else(|| "hothouse".into());
    let lines = |more: &str| {
        let quoted = program.replace('\'', r"'\''");
        let command = format!("command:'{quoted}' agent token {}{more}", login.tool);
        [
            format!("hosts = {}", json!(found.hosts)),
            "form = \"header\"".to_owned(),
            format!("from = {}", json!(command)),
        ]
    };
    // A tool that uses an API key does not also use a token.
    let without =
        login.names().fold(text.clone(), |text, name| entry::take_toml(&text, &table(name)));
    let mut new = entry::put_toml(&without, &table(found.variable), &lines(""));
    if let Some((variable, _)) = &found.account {
        new = entry::put_toml(&new, &table(variable), &lines(" --account"));
    }
    let shown = json!({ "tool": login.tool, "secret": found.variable, "hosts": found.hosts, "origin": found.origin, "expires": found.expires });
    changed(ui, &file, &text, &new, &shown, "now")
}

fn table(name: &str) -> String {
    format!("secret.{name}")
}

fn changed(
    ui: &Ui,
    file: &std::path::Path,
    text: &str,
    new: &str,
    shown: &serde_json::Value,
    word: &str,
) -> Result<ExitCode, Failure> {
    if new != text {
        if let Some(folder) = file.parent() {
            files::make_private_folder(folder).map_err(|error| error.failure())?;
        }
        files::replace(file, new.as_bytes(), 0o600).map_err(|error| error.failure())?;
    }
    match ui.json {
        true => ui.print_json(shown),
        false => ui.say(&format!(
            "Wrote {}: rooms can {word} use the login, from their next `hothouse up`.",
            file.display()
        )),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the value of a login, for the wall.
pub(crate) fn token(
    session: &Session,
    ui: &Ui,
    tool: LoginTool,
    account: bool,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let found = value(tool, session, surroundings)?;
    match (account, &found.account) {
        (true, Some((_, account))) => ui.print(account),
        (true, None) => {
            let message = format!("the login of {} names no account", Login::of(tool).tool);
            return Err(Failure::new(FailureKind::NotFound, message));
        }
        (false, _) => ui.print(&found.value),
    }
    Ok(ExitCode::SUCCESS)
}

fn value(
    tool: LoginTool,
    session: &Session,
    surroundings: &Surroundings,
) -> Result<Found, Failure> {
    let login = Login::of(tool);
    let read = |path: &str| files::read_capped(&session.folders.home.join(path), 1 << 20).ok();
    let look = || {
        find(&login, &|name| (surroundings.variable)(name), &read).ok_or_else(|| {
            let message =
                format!("there is no login of {} on this host that rooms could use", login.tool);
            Failure::new(FailureKind::NotFound, message).hint(login.how)
        })
    };
    let mut found = look()?;
    let mut why = None;
    if let Some(grant) = found.grant.filter(|_| renew::is_due(found.expires)) {
        match renew::renew(grant, session, surroundings) {
            Ok(()) => found = look()?,
            // It may still be valid for a moment.
            Err(reason) => why = Some(reason),
        }
    }
    match found.expires {
        Some(expires) if expires <= HostClock.now() => {
            let message = format!("the login of {} expired at {expires}", login.tool);
            let failure = Failure::new(FailureKind::Conflict, message).hint(login.renew);
            Err(match why {
                Some(why) => {
                    Failure { causes: vec![format!("it could not be renewed: {why}")], ..failure }
                }
                None => failure,
            })
        }
        _ => Ok(found),
    }
}
