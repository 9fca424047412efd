//! A single record in full, as a mail client, an error tracker or a browser's network panel would show it.

use hothouse_model::{
    browse::BrowseReport,
    record::{Kind, Record, bodies::*},
};
use serde_json::Value;

use crate::text::{inline, pretty, short, size};

/// The maximum number of characters of a text on a page.
const TEXT_MOST: usize = 200_000;

/// The maximum number of lines of a list on a page.
const LIST_MOST: usize = 200;

/// A record as a page shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    pub title: String,
    pub facts: Vec<(&'static str, String)>,
    pub parts: Vec<Part>,
}

/// A part of the page, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A file of the run that is shown in a sandboxed frame.
    Frame {
        title: &'static str,
        file: String,
    },
    Picture {
        title: String,
        file: String,
    },
    /// A file to download.
    File {
        title: String,
        file: String,
    },
    Text {
        title: &'static str,
        text: String,
    },
    Stack {
        frames: Vec<StackLine>,
    },
    Table {
        title: &'static str,
        rows: Vec<Vec<String>>,
    },
    Links {
        title: &'static str,
        links: Vec<String>,
    },
    /// The remaining content of the record.
    Raw {
        text: String,
    },
}

/// A stack frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackLine {
    pub function: String,
    pub place: String,
    pub source: Option<String>,
    pub in_app: bool,
}

/// Shows a record in full. `folder` is that of the run: files in it are named relative to it.
pub fn detail(record: &Record, folder: &str) -> Detail {
    let detail = match record.kind {
        Kind::Mail => record.body().map(|body| mail(body, folder)),
        Kind::Error => record.body().map(|body| error(body, folder)),
        Kind::Request => record.body().map(request),
        Kind::Webhook => record.body().map(webhook),
        Kind::Event => record.body().map(event),
        Kind::Object => record.body().map(|body| object(body, folder)),
        Kind::Llm => record.body().map(model),
        Kind::Connection => record.body().map(connection),
        Kind::Browser => record.body().map(|body| page(body, folder)),
        Kind::Job => record.body().map(job),
        _ => Ok(Detail { title: record.summary.clone(), ..Detail::default() }),
    };
    let mut detail =
        detail.unwrap_or_else(|_| Detail { title: record.summary.clone(), ..Detail::default() });
    if detail.title.is_empty() {
        detail.title.clone_from(&record.summary);
    }
    detail.facts.extend(envelope(record));
    detail.parts.push(Part::Raw { text: cut(&pretty(&record.body)) });
    detail
}

fn envelope(record: &Record) -> Vec<(&'static str, String)> {
    let process = record.process.as_ref();
    let mut facts = vec![("time", format!("{:.3}", record.time))];
    facts.extend(record.service.clone().map(|service| ("service", service)));
    let process = process.map(|process| format!("{} ({})", process.command, process.room_pid));
    facts.extend(process.map(|process| ("process", process)));
    facts.extend(record.trace.clone().map(|trace| ("trace", trace)));
    facts.push(("record", format!("{} · {}", record.id, record.seq)));
    facts
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MOST) {
        Some((end, _)) => format!("{}\n… {} bytes in all", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// Returns a file's path below the run's folder.
pub(crate) fn relative(file: &str, folder: &str) -> Option<String> {
    let below = file.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    let file = below.unwrap_or(file);
    (!file.starts_with('/') && !file.is_empty()).then(|| file.to_owned())
}

fn joined(list: &[String]) -> String {
    list.join(", ")
}

fn given(label: &'static str, text: String) -> Option<(&'static str, String)> {
    (!text.is_empty()).then_some((label, text))
}

fn pairs(list: &[(String, String)]) -> Vec<Vec<String>> {
    let rows =
        list.iter().take(LIST_MOST).map(|(name, value)| vec![name.clone(), short(value, 2000)]);
    rows.collect()
}

fn mail(mail: MailBody, folder: &str) -> Detail {
    let facts = [
        given("from", mail.from.clone()),
        given("to", joined(&mail.to)),
        given("cc", joined(&mail.cc)),
        given("bcc", joined(&mail.bcc)),
        given("via", mail.via.clone()),
        given("codes", joined(&mail.codes)),
    ];
    let mut parts = Vec::new();
    let file = |file: &Option<String>| file.as_deref().and_then(|file| relative(file, folder));
    parts.extend(file(&mail.files.html).map(|file| Part::Frame { title: "Message", file }));
    parts.extend(mail.text.map(|text| Part::Text { title: "Text", text: cut(&text) }));
    let checks: Vec<_> =
        mail.checks.iter().map(|check| vec![check.check.clone(), check.text.clone()]).collect();
    parts.extend(table("Checks", checks));
    parts.extend(links("Links", mail.links));
    let attachments = mail
        .attachments
        .iter()
        .take(LIST_MOST)
        .map(|file| vec![file.name.clone(), file.content_type.clone(), size(file.size)]);
    parts.extend(table("Attachments", attachments.collect()));
    parts.extend(table("Headers", pairs(&mail.headers)));
    let eml = file(&mail.files.eml);
    parts.extend(eml.map(|file| Part::File { title: "As it was sent".to_owned(), file }));
    Detail { title: mail.subject, facts: facts.into_iter().flatten().collect(), parts }
}

fn error(error: ErrorBody, folder: &str) -> Detail {
    let facts = [
        given("where", error.culprit.clone()),
        given("level", error.level.clone()),
        given("vendor", error.vendor.clone()),
        given("release", error.release.clone().unwrap_or_default()),
        given("environment", error.environment.clone().unwrap_or_default()),
    ];
    let mut parts = Vec::new();
    let frames: Vec<_> = error.frames.iter().rev().take(LIST_MOST).map(stack_line).collect();
    if !frames.is_empty() {
        parts.push(Part::Stack { frames });
    }
    let causes =
        error.causes.iter().map(|cause| vec![cause.error_type.clone(), cause.message.clone()]);
    parts.extend(table("Caused by", causes.collect()));
    let request = error.request.iter().map(|request| {
        let method = request.method.clone().unwrap_or_else(|| "–".to_owned());
        vec![method, request.url.clone().unwrap_or_default()]
    });
    parts.extend(table("Request", request.collect()));
    let crumbs = error.breadcrumbs.iter().rev().take(LIST_MOST).map(|crumb| {
        vec![crumb.category.clone(), crumb.level.clone(), short(&crumb_text(crumb), 500)]
    });
    parts.extend(table("Before it, the newest first", crumbs.collect()));
    let tags = error.tags.iter().map(|(key, value)| vec![key.clone(), value.clone()]);
    parts.extend(table("Tags", tags.collect()));
    let why = error.group.components.iter().map(|component| vec![component.clone()]);
    parts.extend(table("Why these events are one issue", why.collect()));
    for file in &error.files {
        let path = file.file.as_deref().and_then(|path| relative(path, folder));
        parts.extend(path.map(|path| Part::File { title: file.name.clone(), file: path }));
    }
    let title = format!("{}: {}", error.error_type, short(&error.message, 300));
    Detail { title, facts: facts.into_iter().flatten().collect(), parts }
}

/// Describes a breadcrumb: its message, then its data. Those of requests have only data.
fn crumb_text(crumb: &Breadcrumb) -> String {
    let data = crumb.data.as_ref().and_then(Value::as_object);
    let data = data.into_iter().flatten().map(|(key, value)| format!("{key}={}", inline(value)));
    let message = (!crumb.message.is_empty()).then(|| crumb.message.clone());
    message.into_iter().chain(data).collect::<Vec<_>>().join(" ")
}

fn stack_line(frame: &Frame) -> StackLine {
    let at = |number: Option<u64>| number.map(|number| format!(":{number}")).unwrap_or_default();
    StackLine {
        function: short(&frame.function, 200),
        place: format!("{}{}{}", frame.file, at(frame.line), at(frame.column)),
        source: frame.source.as_deref().map(|source| short(source, 300)),
        in_app: frame.in_app,
    }
}

fn message(title: &'static str, headers: &'static str, message: &Message) -> Vec<Part> {
    let mut parts: Vec<Part> = table(headers, pairs(&message.headers)).into_iter().collect();
    parts
        .extend(message.text.as_ref().map(|text| Part::Text { title, text: cut(&readable(text)) }));
    let blob = message.blob.as_ref().map(|blob| Part::File {
        title: format!("{title}, {}", size(blob.bytes)),
        file: blob.file.clone(),
    });
    parts.extend(blob);
    parts
}

/// Indents a text if it is JSON.
fn readable(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => pretty(&value),
        _ => text.to_owned(),
    }
}

fn request(call: RequestBody) -> Detail {
    let status = call.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let facts = [
        given("status", status),
        given("took", format!("{} ms", call.duration_ms)),
        given("integration", call.integration.clone().unwrap_or_default()),
        given("class", call.class.clone().unwrap_or_default().to_string()),
        given("fixture", call.fixture.clone().unwrap_or_default()),
        given("secrets", joined(&call.secrets)),
        given("refused", call.refused.clone().unwrap_or_default()),
        given("error", call.error.clone().unwrap_or_default()),
    ];
    let mut parts = message("Request body", "Request headers", &call.request);
    parts.extend(message("Response body", "Response headers", &call.response));
    let title = format!("{} {}{}", call.method, call.host, call.path);
    Detail { title, facts: facts.into_iter().flatten().collect(), parts }
}

fn webhook(hook: WebhookBody) -> Detail {
    let status = hook.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let facts = [
        given("to", hook.to.clone()),
        given("status", status),
        given("attempt", hook.attempt.to_string()),
        given("fault", hook.adversary.clone().unwrap_or_default()),
        given("error", hook.error.clone().unwrap_or_default()),
        given("message", hook.message.clone()),
    ];
    let mut parts = message("Sent", "Headers sent", &hook.request);
    parts.extend(message("Answer", "Headers of the answer", &hook.response));
    let title = format!("{} {}", hook.vendor, hook.r#type);
    Detail { title, facts: facts.into_iter().flatten().collect(), parts }
}

fn event(event: EventBody) -> Detail {
    let facts = [
        given("vendor", event.vendor.clone()),
        given("type", event.r#type.clone()),
        given("who", event.distinct_id.clone().unwrap_or_default()),
    ];
    let rows = match &event.properties {
        Value::Object(map) => map
            .iter()
            .take(LIST_MOST)
            .map(|(key, value)| vec![key.clone(), short(&inline(value), 500)])
            .collect(),
        _ => Vec::new(),
    };
    let parts = table("Properties", rows).into_iter().collect();
    Detail { title: event.name, facts: facts.into_iter().flatten().collect(), parts }
}

fn object(object: ObjectBody, folder: &str) -> Detail {
    let facts = [
        given("operation", object.operation.to_string()),
        given("type", object.r#type.clone()),
        given("size", size(object.size)),
        given("etag", object.etag.clone()),
    ];
    let file = object.file.as_deref().and_then(|file| relative(file, folder));
    let parts = file.map(|file| match is_picture(&object.r#type) {
        true => Part::Picture { title: object.key.clone(), file },
        false => Part::File { title: object.key.clone(), file },
    });
    let title = format!("{}/{}", object.bucket, object.key);
    Detail {
        title,
        facts: facts.into_iter().flatten().collect(),
        parts: parts.into_iter().collect(),
    }
}

/// Returns whether a browser may decode it: only bitmap images. SVG can contain scripts.
pub(crate) fn is_picture(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    matches!(essence, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

fn answered_by(call: &LlmBody) -> String {
    match (&call.fixture, call.real, &call.refused) {
        (Some(fixture), _, _) => fixture.clone(),
        (None, true, Some(why)) => format!("none: refused, {why}"),
        (None, true, None) => "none: the real model answered".to_owned(),
        (None, false, _) => "none: an echo answered".to_owned(),
    }
}

fn model(call: LlmBody) -> Detail {
    let facts = [
        given("endpoint", call.endpoint.clone()),
        given("fixture", answered_by(&call)),
        given("cost", call.cost.map(|cost| format!("${cost:.6}")).unwrap_or_default()),
        given("tokens", format!("{} in, {} out", call.input_tokens, call.output_tokens)),
        given("messages", call.prompt.messages.to_string()),
        given("tools", joined(&call.prompt.tools)),
    ];
    let parts =
        vec![Part::Text { title: "How the prompt begins", text: call.prompt.begins.clone() }];
    let title = format!("{} {}", call.provider, call.model);
    Detail { title, facts: facts.into_iter().flatten().collect(), parts }
}

fn connection(to: ConnectionBody) -> Detail {
    let host = to.host.clone().or_else(|| to.address.map(|address| address.to_string()));
    let port = to.port.map(|port| format!(":{port}")).unwrap_or_default();
    let facts = [
        given("verdict", if to.allowed { "allowed" } else { "denied" }.to_owned()),
        given("rule", to.rule.clone()),
        given("reason", to.reason.clone().unwrap_or_default()),
        given("protocol", to.protocol.clone().unwrap_or_default()),
        given("sent", size(to.sent)),
        given("received", size(to.received)),
        given("error", to.error.clone().unwrap_or_default()),
    ];
    let title = format!("{}{port}", host.unwrap_or_default());
    Detail { title, facts: facts.into_iter().flatten().collect(), parts: Vec::new() }
}

fn page(page: BrowseReport, folder: &str) -> Detail {
    let status = page.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let facts = [
        given("status", status),
        given("title", page.title.clone()),
        given("signed in as", page.auth.clone().unwrap_or_default()),
        given("requests", page.requests.to_string()),
    ];
    let mut parts = Vec::new();
    for picture in page.screenshots.iter().take(20) {
        let title = picture.rsplit('/').next().unwrap_or_default().to_owned();
        parts.extend(relative(picture, folder).map(|file| Part::Picture { title, file }));
    }
    let video = page.video.as_deref().and_then(|video| relative(video, folder));
    parts.extend(video.map(|file| Part::File { title: "Recording (AVI)".to_owned(), file }));
    let errors = page.page_errors.iter().map(|error| vec![short(error, 2000)]);
    parts.extend(table("Page errors", errors.collect()));
    let console = page.console.iter().take(LIST_MOST);
    let console = console.map(|line| vec![line.level.clone(), short(&line.text, 1000)]);
    parts.extend(table("Console", console.collect()));
    let failed = page.failed_requests.iter().take(LIST_MOST).map(|failed| {
        let status = failed.status.map(|status| status.to_string()).unwrap_or_default();
        let reason = Some(&failed.reason).filter(|reason| **reason != status);
        vec![failed.method.clone(), failed.url.clone(), status, reason.cloned().unwrap_or_default()]
    });
    parts.extend(table("Failed requests", failed.collect()));
    let steps = page.steps.iter().take(LIST_MOST).map(|step| {
        let ok = if step.ok { "ok" } else { "failed" };
        vec![ok.to_owned(), short(&step.step, 300), step.error.clone().unwrap_or_default()]
    });
    parts.extend(table("Steps", steps.collect()));
    let har = page.har.as_deref().and_then(|har| relative(har, folder));
    parts.extend(har.map(|file| Part::File { title: "All requests (HAR)".to_owned(), file }));
    Detail { title: page.final_url, facts: facts.into_iter().flatten().collect(), parts }
}

fn job(job: JobBody) -> Detail {
    let facts = [
        given("queue", job.queue.clone()),
        given("state", job.state.to_string()),
        given("attempts", job.attempts.to_string()),
    ];
    let parts = job.error.map(|text| Part::Text { title: "Error", text: cut(&text) });
    Detail {
        title: if job.name.is_empty() { job.job } else { job.name },
        facts: facts.into_iter().flatten().collect(),
        parts: parts.into_iter().collect(),
    }
}

fn table(title: &'static str, rows: Vec<Vec<String>>) -> Option<Part> {
    (!rows.is_empty()).then_some(Part::Table { title, rows })
}

/// Makes a list of links. Those that may not be followed are shown as text.
fn links(title: &'static str, links: Vec<String>) -> Option<Part> {
    let links: Vec<String> = links.into_iter().take(LIST_MOST).collect();
    (!links.is_empty()).then_some(Part::Links { title, links })
}

/// Returns whether a page may link to this URL.
pub fn is_followed(link: &str) -> bool {
    link.starts_with("https://") || link.starts_with("http://")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the rows of a table.
    fn rows(detail: &Detail, wanted: &str) -> Vec<Vec<String>> {
        let found = detail.parts.iter().find_map(|part| match part {
            Part::Table { title, rows } if *title == wanted => Some(rows.clone()),
            _ => None,
        });
        found.unwrap_or_default()
    }

    #[test]
    fn what_happened_before_an_error_is_shown_also_where_it_has_only_data() {
        let body = json!({ "breadcrumbs": [
            { "category": "http", "level": "", "message": "", "data": { "method": "GET", "status_code": 200 } },
            { "category": "console", "level": "error", "message": "broke", "data": { "logger": "x" } },
        ] });
        let shown = error(serde_json::from_value(body).unwrap(), "/run");
        assert_eq!(
            rows(&shown, "Before it, the newest first"),
            [["console", "error", "broke logger=x"], ["http", "", "method=GET status_code=200"]]
        );
    }

    #[test]
    fn a_failed_request_has_its_status_once() {
        let body = json!({ "failed_requests": [
            { "method": "POST", "url": "/a", "status": 500, "reason": "500" },
            { "method": "GET", "url": "/b", "reason": "net::ERR_FAILED" },
        ] });
        let shown = page(serde_json::from_value(body).unwrap(), "/run");
        assert_eq!(
            rows(&shown, "Failed requests"),
            [["POST", "/a", "500", ""], ["GET", "/b", "", "net::ERR_FAILED"]]
        );
    }
}
