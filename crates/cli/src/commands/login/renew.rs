//! Renews an OAuth login on this host, as its tool would.

use std::{path::PathBuf, time::Duration};

use hothouse_host::{Clock, Lock, Program, RunError, clock::HostClock, files};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::grant::{Client, Grant, client_in};
use crate::{Surroundings, session::Session};

/// How long before its expiry a token is renewed.
const MARGIN: SignedDuration = SignedDuration::from_secs(120);

/// How long the vendor may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// The largest login file, and the largest program file that is searched.
const FILE_MOST: u64 = 1 << 20;
const CODE_MOST: u64 = 64 << 20;

/// Whether a token with this expiry must be renewed now.
pub(super) fn is_due(expires: Option<Timestamp>) -> bool {
    expires.is_some_and(|expires| expires.duration_since(HostClock.now()) < MARGIN)
}

/// Renews the login in a file. The vendor accepts each refresh token only once, so a lock allows one
/// renewal at a time.
pub(super) fn renew(
    grant: &Grant,
    session: &Session,
    surroundings: &Surroundings,
) -> Result<(), String> {
    let path = session.folders.home.join(grant.file);
    let locks = session.folders.state.join("logins");
    files::make_private_folder(&locks).map_err(|error| error.to_string())?;
    let lock = locks.join(format!("{}.lock", grant.file.replace('/', "-")));
    let _turn = Lock::take(&lock).map_err(|error| error.to_string())?;
    let bytes = files::read_capped(&path, FILE_MOST).map_err(|error| error.to_string())?;
    let file: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if !is_due(grant.expires(&file)) {
        return Ok(());
    }
    let (client, secret) = client(grant, &file, surroundings)?;
    let (kind, body) = grant
        .request(&file, &client, secret.as_deref())
        .ok_or("the file of the login has nothing that renews it")?;
    let answer = post(grant.url, kind, &body)?;
    let new =
        grant.renewed(&file, &answer, HostClock.now()).ok_or("the vendor's answer has no token")?;
    let text = serde_json::to_string_pretty(&new).expect("values are JSON");
    files::replace(&path, text.as_bytes(), 0o600).map_err(|error| error.to_string())
}

fn client(
    grant: &Grant,
    file: &Value,
    surroundings: &Surroundings,
) -> Result<(String, Option<String>), String> {
    match grant.client {
        Client::Named(name) => Ok((name.to_owned(), None)),
        Client::OfLogin => {
            let name = grant.client_of(file);
            name.map(|name| (name, None)).ok_or_else(|| "the login names no client".to_owned())
        }
        Client::Installed(program) => {
            let found = installed(program, surroundings);
            found.map(|(name, secret)| (name, Some(secret))).ok_or_else(|| {
                format!("`{program}` is not installed on this host, which could renew it")
            })
        }
    }
}

/// Finds a program's client in its bundle: `…/PACKAGE/bundle/*.js`.
fn installed(program: &str, surroundings: &Surroundings) -> Option<(String, String)> {
    let search = (surroundings.variable)("PATH")?;
    let found = search.split(':').map(|folder| PathBuf::from(folder).join(program));
    let program = found.filter_map(|path| files::canonical(&path).ok()).next()?;
    let folder = program.parent()?;
    let scripts = files::list(folder).ok()?.into_iter();
    let mut scripts = scripts.filter(|path| path.extension().is_some_and(|end| end == "js"));
    scripts.find_map(|path| {
        let code = files::read_capped(&path, CODE_MOST).ok()?;
        client_in(&String::from_utf8_lossy(&code))
    })
}

/// Sends the renewal request. The refresh token is not passed on a command line.
fn post(url: &str, kind: &str, body: &str) -> Result<Value, String> {
    let limit = PATIENCE.as_secs().to_string();
    let header = format!("content-type: {kind}");
    let words = ["--silent", "--show-error", "--proto", "=https", "--max-time", &limit];
    let body = files::memory(body.as_bytes()).map_err(|error| error.to_string())?;
    let program = Program::new("curl").args(words).args(["--header", &header]);
    let program = program.args(["--data-binary", "@-", "--", url]).stdin(body);
    let run = program.run_within(PATIENCE * 2).map_err(|error| match error {
        RunError::Missing { .. } => "`curl` is not installed on this host".to_owned(),
        other => other.to_string(),
    })?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr).trim().to_owned();
        return Err(format!("{url} was not reached: {said}"));
    }
    let answer: Value = serde_json::from_slice(&run.stdout)
        .map_err(|_| format!("{url} did not answer with JSON"))?;
    match answer.pointer("/error/message").or_else(|| answer.get("error")) {
        Some(error) => Err(format!("{url} refused it: {}", error.as_str().unwrap_or("no reason"))),
        None => Ok(answer),
    }
}
