//! `requests`: a run's requests to hosts, as a list, in full, as an archive or as a fixture.

use std::{path::Path, process::ExitCode};

use hothouse_api::{
    route,
    timeline::{ArchivePage, BodyView, RequestQuery, RequestView, TimelineQuery},
};
use hothouse_host::files;
use hothouse_model::{
    Explain, Failure, FailureKind, Word,
    config::IntegrationClass,
    record::{Kind, Record, bodies::RequestBody, kind_of_id},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::timeline::{checked, cut, fetch, go_on, of_kind, terms};
use crate::{
    args::{RequestsArgs, WhichRun},
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// A request in the list.
#[derive(Serialize)]
struct RequestLine<'a> {
    id: &'a str,
    time: jiff::Timestamp,
    host: String,
    method: String,
    path: String,
    status: Option<u16>,
    integration: Option<String>,
    class: Option<Word<IntegrationClass>>,
    matched: Option<bool>,
    fixture: Option<String>,
    duration_ms: u64,
    service: Option<&'a str>,
}

impl<'a> RequestLine<'a> {
    fn of(record: &'a Record) -> Self {
        let body: RequestBody = record.body().unwrap_or_default();
        Self {
            id: &record.id,
            time: record.time,
            host: body.host,
            method: body.method,
            path: body.path,
            status: body.status,
            integration: body.integration,
            class: body.class,
            matched: body.matched,
            fixture: body.fixture,
            duration_ms: body.duration_ms,
            service: record.service.as_deref(),
        }
    }
}

/// Lists requests.
pub(crate) fn requests(
    session: &Session,
    ui: &Ui,
    args: RequestsArgs,
) -> Result<ExitCode, Failure> {
    let one = match args.query.as_slice() {
        [id] if kind_of_id(id) == Some(Kind::Request) => Some(id.clone()),
        _ => None,
    };
    match (one, args.stub) {
        (Some(id), stub) if args.har.is_none() => {
            return show(session, ui, args.part.run, id, stub);
        }
        (_, true) => {
            let failure = Failure::new(FailureKind::Usage, "`--stub` needs the id of one request");
            return Err(failure.hint("`hothouse requests --unmatched --json` has them"));
        }
        _ => {}
    }
    let budget = args.part.budget;
    let har = args.har.clone();
    let query = query(session, args)?;
    if let Some(file) = har {
        return write_archive(session, ui, query, &file);
    }
    let (records, next) = fetch(session, ui, query, budget)?;
    let lines: Vec<_> = records.iter().map(RequestLine::of).collect();
    match ui.json {
        true => ui.print_json(&lines),
        false if lines.is_empty() => ui.say("No such requests."),
        false => ui.print(&table(
            ui,
            &["TIME", "STATUS", "METHOD", "HOST", "PATH", "BY", "MS"],
            lines.iter().map(request_row).collect(),
        )),
    }
    go_on(ui, next);
    Ok(ExitCode::SUCCESS)
}

fn request_row(line: &RequestLine<'_>) -> Vec<Cell> {
    let status = line.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let tone = if line.status.is_some_and(|status| status < 400) { Tone::Good } else { Tone::Bad };
    let by = match (&line.integration, line.matched) {
        (Some(name), Some(false)) => format!("{name} (unmatched)"),
        (Some(name), _) => name.clone(),
        (None, _) => "-".to_owned(),
    };
    vec![
        Cell::new(line.time.strftime("%H:%M:%S").to_string()).tone(Tone::Faint),
        Cell::new(status).tone(tone),
        Cell::new(&line.method),
        Cell::new(&line.host),
        Cell::new(cut(&line.path)),
        Cell::new(by),
        Cell::new(line.duration_ms.to_string()),
    ]
}

fn query(session: &Session, args: RequestsArgs) -> Result<TimelineQuery, Failure> {
    let mut terms = terms(&args.query);
    if args.unmatched {
        terms.push_str(" matched=false");
    }
    of_kind(session, Kind::Request, terms, args.part.since, args.part.run)
}

/// Shows one request in full, or the fixture for it.
fn show(
    session: &Session,
    ui: &Ui,
    run: WhichRun,
    id: String,
    stub: bool,
) -> Result<ExitCode, Failure> {
    let sandbox = checked(run.which)?;
    let query = RequestQuery { sandbox, folder: session.folder_text()?, run: run.run, id };
    let found: RequestView = session.query(route::TIMELINE_REQUEST, &query)?;
    match (stub, ui.json) {
        (true, true) => {
            ui.print_json(&json!({ "file": found.stub_file, "stub": found.stub }));
        }
        (true, false) => {
            ui.say(&format!("A fixture for {}:", plain(&found.stub_file)));
            ui.print(&stub_text(&found.stub));
        }
        (false, true) => ui.print_json(&whole(&found)),
        (false, false) => ui.print(&page(&found)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Escapes a fixture for a terminal: it contains what a room sent.
fn stub_text(stub: &str) -> String {
    stub.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// Returns a request as in the list, with its headers and bodies.
fn whole(found: &RequestView) -> Value {
    let mut all = serde_json::to_value(RequestLine::of(&found.record)).unwrap_or_default();
    let body: RequestBody = found.record.body().unwrap_or_default();
    let side =
        |headers: &[(String, String)], body: &BodyView| json!({ "headers": headers, "body": body });
    all["request"] = side(&body.request.headers, &found.request);
    all["response"] = side(&body.response.headers, &found.response);
    all["trace"] = json!(found.record.trace);
    all["process"] = json!(found.record.process);
    all["secrets"] = json!(body.secrets);
    all["refused"] = json!(body.refused);
    all["error"] = json!(body.error);
    all
}

/// Renders a request for a reader.
fn page(found: &RequestView) -> String {
    let body: RequestBody = found.record.body().unwrap_or_default();
    let scheme = if body.tls { "https" } else { "http" };
    let mut lines = vec![format!("{} {scheme}://{}{}", body.method, body.host, body.path)];
    lines.extend(side(&body.request.headers, &found.request));
    let status = body.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    lines.push(format!("{status}, {} ms", body.duration_ms));
    lines.extend(body.refused.iter().chain(&body.error).cloned());
    lines.extend(side(&body.response.headers, &found.response));
    lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n")
}

fn side(headers: &[(String, String)], body: &BodyView) -> Vec<String> {
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("  {name}: {value}")).collect();
    lines.push(String::new());
    match (&body.text, &body.base64) {
        (Some(text), _) => lines.extend(text.lines().map(|line| format!("  {line}"))),
        (None, Some(_)) => lines.push(format!("  [{} bytes that are not text]", body.bytes)),
        (None, None) => return lines,
    }
    lines.push(String::new());
    lines
}

/// Writes requests to an archive file.
fn write_archive(
    session: &Session,
    ui: &Ui,
    mut query: TimelineQuery,
    file: &Path,
) -> Result<ExitCode, Failure> {
    let mut whole: Option<Value> = None;
    loop {
        let ArchivePage { archive, next } = session.query(route::TIMELINE_ARCHIVE, &query)?;
        match whole.as_mut().and_then(|whole| whole["log"]["entries"].as_array_mut()) {
            Some(entries) => {
                entries.extend(archive["log"]["entries"].as_array().cloned().unwrap_or_default());
            }
            None => whole = Some(archive),
        }
        match next {
            Some(seq) => query.since = Some(seq.to_string()),
            None => break,
        }
    }
    let whole = whole.unwrap_or_default();
    let count = whole["log"]["entries"].as_array().map_or(0, Vec::len);
    let bytes = serde_json::to_vec_pretty(&whole).unwrap_or_default();
    let path = session.folder.join(file);
    files::replace(&path, &bytes, 0o600).map_err(|error| error.failure())?;
    match ui.json {
        true => ui.print_json(&json!({ "file": path, "requests": count })),
        false => ui.say(&format!("Wrote {count} requests to {}", path.display())),
    }
    Ok(ExitCode::SUCCESS)
}
