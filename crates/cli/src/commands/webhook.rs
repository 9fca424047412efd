//! `webhook`, `webhook listen` and `webhooks`: what vendors send to apps.

mod listen;

use std::process::ExitCode;

use hothouse_api::{
    route,
    webhook::{WebhookBody as SendBody, WebhookView},
};
use hothouse_host::files;
use hothouse_model::{
    Failure, FailureKind,
    record::{
        Kind, Record,
        bodies::{RequestBody, WebhookBody},
    },
};
use serde::Serialize;

use super::{
    given::{not_text, unread},
    timeline::{checked, cut, fetch_where, go_on, of_kind, terms},
};
use crate::{
    args::{WebhookArgs, WebhookCommand, WebhookSendArgs, WebhooksArgs},
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// The maximum size of a payload.
const PAYLOAD_MOST: u64 = 4 << 20;

/// Sends a webhook, or listens for those of a vendor.
pub(crate) fn run(session: &Session, ui: &Ui, args: WebhookArgs) -> Result<ExitCode, Failure> {
    match (args.command, args.send.what.clone()) {
        (Some(WebhookCommand::Listen(args)), _) => listen::listen(session, ui, args),
        (None, Some(what)) => send(session, ui, what, args.send),
        (None, None) => {
            let failure = Failure::new(FailureKind::Usage, "no webhook to send was given");
            Err(failure.hint("name one, such as `hothouse webhook stripe/invoice.paid`"))
        }
    }
}

fn send(
    session: &Session,
    ui: &Ui,
    what: String,
    args: WebhookSendArgs,
) -> Result<ExitCode, Failure> {
    let payload = payload(session, &what, &args)?;
    let body = SendBody {
        sandbox: checked(args.which)?,
        folder: session.folder_text()?,
        what,
        payload,
        vendor: args.vendor,
        set: args.set,
        adversary: args.adversary,
        to: args.to,
    };
    let attempts: Vec<WebhookView> = session.post(route::WEBHOOKS, &session.operation(), &body)?;
    match ui.json {
        true => ui.print_json(&attempts),
        false => ui.print(&table(
            ui,
            &["TYPE", "ADVERSARY", "TO", "STATUS", "EXPECTED", "MS"],
            attempts.iter().map(sent_row).collect(),
        )),
    }
    let code = match attempts.iter().all(|attempt| attempt.ok) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FailureKind::Unmet.exit_code()),
    };
    Ok(code)
}

/// Reads the named file; returns `None` if the word is the name of a fixture instead.
fn payload(
    session: &Session,
    what: &str,
    args: &WebhookSendArgs,
) -> Result<Option<String>, Failure> {
    let path = session.folder.join(what);
    let is_file = path.is_file();
    if !is_file && what.contains('/') && args.vendor.is_none() {
        return Ok(None);
    }
    if !is_file {
        let message = format!("`{}` is neither VENDOR/TYPE nor a file", what);
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("such as `hothouse webhook stripe/invoice.paid`"));
    }
    let bytes = files::read_capped(&path, PAYLOAD_MOST)
        .map_err(|error| unread(FailureKind::NotFound, &error))?;
    String::from_utf8(bytes).map(Some).map_err(|_| not_text(&path))
}

fn sent_row(attempt: &WebhookView) -> Vec<Cell> {
    let tone = if attempt.ok { Tone::Good } else { Tone::Bad };
    vec![
        Cell::new(format!("{}/{}", attempt.vendor, attempt.kind)).tone(Tone::Strong),
        Cell::new(attempt.adversary.as_deref().unwrap_or("-")),
        Cell::new(&attempt.to),
        Cell::new(answer(attempt.status, attempt.error.as_deref())).tone(tone),
        Cell::new(attempt.expected.as_str()),
        Cell::new(attempt.duration_ms.to_string()),
    ]
}

fn answer(status: Option<u16>, error: Option<&str>) -> String {
    match (status, error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => cut(error),
        (None, None) => "-".to_owned(),
    }
}

/// A delivery attempt in the list.
#[derive(Serialize)]
struct WebhookLine<'a> {
    id: &'a str,
    time: jiff::Timestamp,
    fixture: Option<String>,
    vendor: String,
    r#type: String,
    to: String,
    status: Option<u16>,
    attempt: u32,
    duration_ms: u64,
    adversary: Option<String>,
    error: Option<String>,
}

impl<'a> WebhookLine<'a> {
    fn of(record: &'a Record) -> Self {
        let body: WebhookBody = record.body().unwrap_or_default();
        Self {
            id: &record.id,
            time: record.time,
            fixture: body.fixture,
            vendor: body.vendor,
            r#type: body.r#type,
            to: body.to,
            status: body.status,
            attempt: body.attempt,
            duration_ms: body.duration_ms,
            adversary: body.adversary,
            error: body.error,
        }
    }

    /// Builds the line for a request that the app sends out.
    fn sent_by_app(record: &'a Record) -> Option<Self> {
        let body: RequestBody = record.body().unwrap_or_default();
        looks_like_webhook(&body).then(|| Self {
            id: &record.id,
            time: record.time,
            fixture: None,
            vendor: body.integration.unwrap_or_else(|| body.host.clone()),
            r#type: body.method,
            to: format!("https://{}{}", body.host, body.path),
            status: body.status,
            attempt: 1,
            duration_ms: body.duration_ms,
            adversary: None,
            error: body.error,
        })
    }
}

/// Whether a request looks like one that apps send to other parties' endpoints.
fn looks_like_webhook(body: &RequestBody) -> bool {
    let says_so = |text: &str| {
        text.to_ascii_lowercase().split(['/', '.', '-', '_']).any(|word| {
            matches!(word, "hook" | "hooks" | "webhook" | "webhooks" | "callback" | "callbacks")
        })
    };
    body.method == "POST" && (says_so(&body.host) || says_so(&body.path))
}

/// Lists webhooks.
pub(crate) fn list(session: &Session, ui: &Ui, args: WebhooksArgs) -> Result<ExitCode, Failure> {
    let kind = if args.out { Kind::Request } else { Kind::Webhook };
    let query = of_kind(session, kind, terms(&args.query), args.part.since, args.part.run)?;
    let is_wanted = |record: &Record| !args.out || WebhookLine::sent_by_app(record).is_some();
    let (records, next) = fetch_where(session, ui, query, args.part.budget, &is_wanted)?;
    let line = |record| match args.out {
        true => WebhookLine::sent_by_app(record),
        false => Some(WebhookLine::of(record)),
    };
    let lines: Vec<WebhookLine<'_>> = records.iter().filter_map(line).collect();
    match ui.json {
        true => ui.print_json(&lines),
        false if lines.is_empty() => ui.say("No such webhooks."),
        false => ui.print(&table(
            ui,
            &["TIME", "STATUS", "TYPE", "TO", "ATTEMPT", "ADVERSARY", "MS"],
            lines.iter().map(row).collect(),
        )),
    }
    go_on(ui, next);
    Ok(ExitCode::SUCCESS)
}

fn row(line: &WebhookLine<'_>) -> Vec<Cell> {
    let accepted = line.status.is_some_and(|status| (200..300).contains(&status));
    let tone = if accepted { Tone::Good } else { Tone::Bad };
    vec![
        Cell::new(line.time.strftime("%H:%M:%S").to_string()).tone(Tone::Faint),
        Cell::new(answer(line.status, line.error.as_deref())).tone(tone),
        Cell::new(format!("{}/{}", line.vendor, line.r#type)),
        Cell::new(cut(&line.to)),
        Cell::new(line.attempt.to_string()),
        Cell::new(line.adversary.as_deref().unwrap_or("-")),
        Cell::new(line.duration_ms.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_apps_send_to_endpoints_look_so() {
        for (method, host, path, expected) in [
            ("POST", "hooks.slack.com", "/services/T/B/x", true),
            ("POST", "discord.com", "/api/webhooks/1/x", true),
            ("POST", "customer.example", "/my-webhook", true),
            ("GET", "hooks.slack.com", "/", false),
            ("POST", "api.stripe.com", "/v1/customers", false),
        ] {
            let body = RequestBody {
                method: method.into(),
                host: host.into(),
                path: path.into(),
                ..RequestBody::default()
            };
            assert_eq!(looks_like_webhook(&body), expected, "{method} {host}{path}");
        }
    }
}
