//! Mail and text messages: all of them end up in one outbox.
//!
//! - [`smtp`]: the server side of a session
//! - [`api`]: the APIs of vendors
//! - `message`, `html`, `codes`, `checks`: the content of a mail, and its possible problems
//! - `compose`: the message that a vendor would have sent
//!
//! A record is limited in size; its files are complete. Nothing is ever relayed.

pub mod api;
mod checks;
mod codes;
mod compose;
mod html;
mod message;
pub mod smtp;

use std::borrow::Cow;

use hothouse_model::record::{
    bodies::{MailBody, MailEnvelope, MailTemplate},
    trace_of,
};
use serde_json::{Value, json};

pub use self::api::find;
use self::{html::cut, smtp::Delivery};
use crate::{RecordFile, Recorded};

/// How much of a text is in the record, in bytes; the files have all of it. The timeline truncates
/// at 32 KiB.
const TEXT_LIMIT: usize = 31 << 10;

/// The maximum size of a list in a record, in bytes.
const LIST_LIMIT: usize = 32 << 10;

/// The maximum size of a record's body. A larger one loses its longest parts, because a record
/// beyond 1 MiB is refused.
const BODY_LIMIT: usize = 512 << 10;

/// A raw message with its envelope.
#[derive(Clone, Debug, Default)]
pub struct Incoming<'a> {
    pub from: &'a str,
    pub recipients: &'a [String],
    pub parameters: &'a [String],
    pub message: &'a [u8],
    /// How it arrived, such as `smtp`.
    pub via: &'a str,
    pub template: Option<MailTemplate>,
}

/// Builds the record of a message that a session delivered.
pub fn delivered(delivery: &Delivery) -> Recorded {
    recorded(Incoming {
        from: &delivery.from,
        recipients: &delivery.to,
        parameters: &delivery.parameters,
        message: &delivery.message,
        via: "smtp",
        template: None,
    })
}

/// Builds the record of a message.
pub fn recorded(mail: Incoming<'_>) -> Recorded {
    let parsed = message::parse(mail.message);
    let seen = html::look(parsed.html.as_deref().unwrap_or_default());
    let shown = parsed.text.as_deref().unwrap_or(&seen.text);
    let files = files(mail.message, &parsed, shown);
    let checks = checks::check(&parsed, &seen, mail.from);
    let links = seen.links.into_iter().filter(|link| link.contains(':')).chain(codes::links(shown));
    let body = MailBody {
        codes: codes::codes(&parsed.subject, shown),
        links: bounded(unique(links)),
        bcc: bounded(blind(&parsed, mail.recipients)),
        from: parsed.from.unwrap_or_else(|| mail.from.to_owned()),
        to: bounded(parsed.to),
        cc: bounded(parsed.cc),
        subject: cut(&parsed.subject, 1024).to_owned(),
        via: mail.via.to_owned(),
        size: mail.message.len() as u64,
        attachments: parsed.attachments,
        text: parsed.text.as_deref().map(clipped),
        html: parsed.html.as_deref().map(clipped),
        headers: bounded_pairs(parsed.headers),
        checks,
        template: mail.template,
        envelope: MailEnvelope {
            from: mail.from.to_owned(),
            to: bounded(mail.recipients.to_vec()),
            parameters: unique(mail.parameters.iter().cloned()),
        },
        ..MailBody::default()
    };
    let headers = body.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let trace = trace_of(headers);
    let summary = summary(&body);
    Recorded { trace, ..record(summary, body, files) }
}

/// Builds the record of a text message.
pub(crate) fn text_message(via: &str, from: &str, to: &str, text: &str) -> Recorded {
    let body = MailBody {
        from: cut(from, 255).to_owned(),
        to: vec![cut(to, 255).to_owned()],
        via: via.to_owned(),
        size: text.len() as u64,
        links: bounded(codes::links(text)),
        codes: codes::codes("", text),
        text: Some(clipped(text)),
        envelope: MailEnvelope {
            from: from.to_owned(),
            to: vec![to.to_owned()],
            ..MailEnvelope::default()
        },
        ..MailBody::default()
    };
    let summary = format!("text message to {}: {}", body.to[0], cut(text, 80));
    record(summary, body, vec![file("txt", "/files/text", text.as_bytes().to_vec())])
}

fn record(summary: String, mut body: MailBody, mut files: Vec<RecordFile>) -> Recorded {
    shrink(&mut body);
    let mut recorded = Recorded::of(summary, &body);
    let mut known = recorded.body.clone();
    for key in ["files", "text", "html"] {
        known.as_object_mut().map(|body| body.remove(key));
    }
    let bytes = serde_json::to_vec_pretty(&known).unwrap_or_default();
    files.push(file("json", "/files/json", bytes));
    recorded.files = files;
    recorded
}

fn files(message: &[u8], parsed: &message::Parsed, shown: &str) -> Vec<RecordFile> {
    let mut files = vec![file("eml", "/files/eml", message.to_vec())];
    if let Some(html) = &parsed.html {
        files.push(file("html", "/files/html", html::page(html, &parsed.subject).into_bytes()));
    }
    files.push(file("txt", "/files/text", shown.as_bytes().to_vec()));
    files
}

/// Builds a file of the outbox. Only the record's id is part of its name.
fn file(extension: &str, pointer: &'static str, bytes: Vec<u8>) -> RecordFile {
    RecordFile { path: format!("email-outbox/{{id}}.{extension}"), pointer: Some(pointer), bytes }
}

/// Returns the recipients that no header names; a Bcc header that was sent counts too.
fn blind(parsed: &message::Parsed, recipients: &[String]) -> Vec<String> {
    let named = |address: &String| {
        parsed.to.iter().chain(&parsed.cc).any(|other| other.eq_ignore_ascii_case(address))
    };
    unique(recipients.iter().filter(|address| !named(address)).chain(&parsed.bcc).cloned())
}

fn unique(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    all.into_iter().filter(|one| seen.insert(one.to_ascii_lowercase())).collect()
}

fn bounded(all: Vec<String>) -> Vec<String> {
    let mut left = LIST_LIMIT;
    let fits = |one: &String| {
        left = left.saturating_sub(one.len() + 3);
        left > 0
    };
    all.into_iter().take_while(fits).collect()
}

fn bounded_pairs(all: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut left = LIST_LIMIT;
    let fits = |(name, value): &(String, String)| {
        left = left.saturating_sub(name.len() + value.len() + 6);
        left > 0
    };
    all.into_iter().take_while(fits).collect()
}

fn clipped(text: &str) -> String {
    match cut(text, TEXT_LIMIT) {
        whole if whole.len() == text.len() => whole.to_owned(),
        part => format!("{part}… [{} bytes in all; the file has the rest]", text.len()),
    }
}

/// Drops parts of a body until it is small enough; the files have them.
fn shrink(body: &mut MailBody) {
    let drops: [fn(&mut MailBody); 4] = [
        |body| {
            if let Some(template) = &mut body.template {
                template.values = Value::String("too large for the record".to_owned());
            }
        },
        |body| body.html = body.html.as_deref().map(|html| cut(html, 1024).to_owned()),
        |body| body.text = body.text.as_deref().map(|text| cut(text, 1024).to_owned()),
        |body| {
            body.headers.truncate(20);
            body.links.truncate(20);
            body.attachments.truncate(20);
            for list in [&mut body.to, &mut body.cc, &mut body.bcc, &mut body.envelope.to] {
                list.truncate(50);
            }
        },
    ];
    for drop in drops {
        if json!(body).to_string().len() <= BODY_LIMIT {
            return;
        }
        drop(body);
    }
}

fn summary(body: &MailBody) -> String {
    let subject: Cow<'_, str> = match body.subject.trim() {
        "" => "(no subject)".into(),
        subject => cut(subject, 200).into(),
    };
    let all: Vec<&String> = body.to.iter().chain(&body.cc).chain(&body.bcc).collect();
    match all[..] {
        [] => format!("{subject} to nobody"),
        [one] => format!("{subject} to {one}"),
        [first, ..] => format!("{subject} to {first} and {} more", all.len() - 1),
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::Kind;

    use super::*;

    fn mail(message: &str, recipients: &[&str]) -> (Recorded, MailBody) {
        let recipients: Vec<String> = recipients.iter().map(|one| (*one).to_owned()).collect();
        let recorded = recorded(Incoming {
            from: "shop@acme.example",
            recipients: &recipients,
            message: message.as_bytes(),
            via: "smtp",
            ..Incoming::default()
        });
        let body = serde_json::from_value(recorded.body.clone()).unwrap();
        (recorded, body)
    }

    #[test]
    fn a_mail_becomes_a_record_with_its_files() {
        let (recorded, body) = mail(
            "From: Acme <shop@acme.example>\r\nTo: Buyer@example.com\r\nSubject: Your code\r\nContent-Type: text/html\r\n\r\n\
             <p>Use <b>314159</b>.</p><a href=\"https://acme.example/r/1\">r</a><a href=/rel>x</a>",
            &["buyer@example.com", "audit@acme.example"],
        );
        assert_eq!(recorded.kind, Kind::Mail);
        assert_eq!(recorded.summary, "Your code to Buyer@example.com and 1 more");
        assert_eq!(body.bcc, ["audit@acme.example"]);
        assert_eq!((body.text, body.codes), (None, vec!["314159".to_owned()]));
        assert_eq!(body.links, ["https://acme.example/r/1"]);
        let names: Vec<&str> = recorded.files.iter().map(|file| file.path.as_str()).collect();
        let expected =
            ["eml", "html", "txt", "json"].map(|end| format!("email-outbox/{{id}}.{end}"));
        assert_eq!(names, expected);
        assert_eq!(recorded.files[2].bytes, b"Use 314159.\nrx");
    }

    #[test]
    fn a_record_is_bounded_whatever_the_mail_is() {
        let long = "\u{1}".repeat(1 << 20);
        let header: String = (0..500).map(|n| format!("X-{n}: {}\r\n", "v".repeat(900))).collect();
        let to: Vec<String> =
            (0..1000).map(|n| format!("{n}{}@example.com", "x".repeat(200))).collect();
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let message =
            format!("{header}To: {}\r\nContent-Type: text/html\r\n\r\n{long}", to.join(", "));
        let (recorded, body) = mail(&message, &to);
        assert!(
            recorded.body.to_string().len() <= BODY_LIMIT,
            "{}",
            recorded.body.to_string().len()
        );
        assert_eq!(body.size, message.len() as u64);
        assert_eq!(recorded.files[0].bytes.len(), message.len());
    }

    #[test]
    fn a_text_message_has_its_code_and_no_subject() {
        let recorded = text_message("twilio", "+15550001", "+15550002", "Your code is 482913");
        assert_eq!(recorded.body["codes"], json!(["482913"]));
        assert_eq!(recorded.body["files"]["eml"], Value::Null);
        assert_eq!(recorded.summary, "text message to +15550002: Your code is 482913");
    }
}
