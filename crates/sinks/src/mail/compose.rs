//! Composes the message that a vendor would have sent for an API call.

use base64::{Engine, prelude::BASE64_STANDARD};
use hothouse_model::record::bodies::MailTemplate;
use jiff::Timestamp;
use mail_parser::{HeaderValue, parsers::MessageStream};

use super::{Incoming, recorded};
use crate::{Context, Recorded};

/// The number of bytes in an encoded word: RFC 2047 allows 75 characters.
const WORD: usize = 42;

/// A sender or recipient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mailbox {
    pub(super) name: String,
    pub(super) address: String,
}

/// A mail as given to an API.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outgoing {
    pub(super) from: Mailbox,
    pub(super) to: Vec<Mailbox>,
    pub(super) cc: Vec<Mailbox>,
    pub(super) bcc: Vec<Mailbox>,
    pub(super) reply_to: Vec<Mailbox>,
    pub(super) subject: String,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) files: Vec<OutgoingFile>,
    pub(super) template: Option<MailTemplate>,
}

/// A file of a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OutgoingFile {
    pub(super) name: String,
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
    /// Set if the HTML shows it inline.
    pub(super) content_id: Option<String>,
}

impl Mailbox {
    pub(super) fn new(name: &str, address: &str) -> Self {
        Self { name: name.trim().to_owned(), address: address.trim().to_owned() }
    }

    /// Parses `a@b`, `A <a@b>` and lists of them.
    pub(super) fn list(text: &str) -> Vec<Self> {
        let line = format!("{}\n", text.replace(['\r', '\n'], " "));
        let HeaderValue::Address(found) = MessageStream::new(line.as_bytes()).parse_address()
        else {
            return Vec::new();
        };
        let mailbox = |one: &mail_parser::Addr<'_>| {
            Self::new(one.name().unwrap_or_default(), one.address().unwrap_or_default())
        };
        found.iter().map(mailbox).filter(|one| !one.address.is_empty()).take(1000).collect()
    }

    /// Returns whether the address has a part on both sides of an `@`.
    pub(super) fn is_valid(&self) -> bool {
        let parts = self.address.rsplit_once('@');
        parts.is_some_and(|(user, domain)| !user.is_empty() && !domain.is_empty())
            && !self.address.contains(char::is_whitespace)
    }

    fn written(&self) -> String {
        let address = clean(&self.address);
        match self.name.as_str() {
            "" => address,
            name if name.is_ascii() => {
                let name = clean(name).replace('\\', "\\\\").replace('"', "\\\"");
                format!("\"{name}\" <{address}>")
            }
            name => format!("{} <{address}>", encoded(name)),
        }
    }
}

impl Outgoing {
    pub(super) fn recipients(&self) -> Vec<String> {
        let all = self.to.iter().chain(&self.cc).chain(&self.bcc);
        all.map(|one| one.address.clone()).collect()
    }

    /// Builds the message and its record.
    pub(super) fn record(&self, via: &str, context: &mut Context<'_>) -> Recorded {
        let id = super::api::hex((context.random)());
        let message = self.compose(context.now, &id);
        recorded(Incoming {
            from: &self.from.address,
            recipients: &self.recipients(),
            message: &message,
            via,
            template: self.template.clone(),
            ..Incoming::default()
        })
    }

    /// Builds the message; Bcc recipients are only in the envelope.
    pub(super) fn compose(&self, now: Timestamp, id: &str) -> Vec<u8> {
        let mut lines = vec![("From".to_owned(), self.from.written())];
        for (name, list) in [("To", &self.to), ("Cc", &self.cc), ("Reply-To", &self.reply_to)] {
            if !list.is_empty() {
                lines.push((name.to_owned(), written(list)));
            }
        }
        lines.push(("Subject".to_owned(), encoded_text(&self.subject)));
        lines.push(("Date".to_owned(), now.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()));
        let domain = self.from.address.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
        let own_id = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("message-id"));
        if !own_id {
            lines.push(("Message-ID".to_owned(), format!("<{id}@{}>", clean(domain))));
        }
        lines.extend(self.headers.iter().filter_map(own_header));
        lines.push(("MIME-Version".to_owned(), "1.0".to_owned()));
        let head: String =
            lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{head}{}", self.content(id)).into_bytes()
    }

    /// Builds the parts, starting with the Content-Type header.
    fn content(&self, id: &str) -> String {
        let mut shown: Vec<String> = Vec::new();
        shown.extend(self.text.as_deref().map(|text| text_part("plain", text)));
        shown.extend(self.html.as_deref().map(|html| text_part("html", html)));
        let shown = match shown.len() {
            0 => text_part("plain", ""),
            1 => shown.remove(0),
            _ => multipart("alternative", &format!("a{id}"), &shown),
        };
        if self.files.is_empty() {
            return shown;
        }
        let files = self.files.iter().map(OutgoingFile::part);
        multipart(
            "mixed",
            &format!("m{id}"),
            &std::iter::once(shown).chain(files).collect::<Vec<_>>(),
        )
    }
}

impl OutgoingFile {
    fn part(&self) -> String {
        let kind = Some(self.content_type.trim()).filter(|kind| is_content_type(kind));
        let name = match self.name.is_ascii() {
            true => clean(&self.name).replace(['"', '\\'], "_"),
            false => encoded(&self.name),
        };
        let place = if self.content_id.is_some() { "inline" } else { "attachment" };
        let id = self.content_id.as_deref().map(clean).map(|id| format!("Content-ID: <{id}>\r\n"));
        format!(
            "Content-Type: {}; name=\"{name}\"\r\nContent-Disposition: {place}; filename=\"{name}\"\r\n{}\
             Content-Transfer-Encoding: base64\r\n\r\n{}",
            kind.unwrap_or("application/octet-stream"),
            id.unwrap_or_default(),
            folded_base64(&self.bytes)
        )
    }
}

fn is_content_type(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-.+_".contains(c))
    };
    text.split_once('/').is_some_and(|(main, sub)| is_token(main) && is_token(sub))
}

/// Accepts a custom header, unless it is generated anyway or invalid.
fn own_header((name, value): &(String, String)) -> Option<(String, String)> {
    const WRITTEN: [&str; 9] = [
        "from",
        "to",
        "cc",
        "bcc",
        "subject",
        "date",
        "mime-version",
        "content-type",
        "content-transfer-encoding",
    ];
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let is_taken = WRITTEN.contains(&name.to_ascii_lowercase().as_str());
    (is_name && !is_taken).then(|| (name.clone(), encoded_text(value)))
}

fn text_part(kind: &str, text: &str) -> String {
    format!(
        "Content-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n{}",
        folded_base64(text.as_bytes())
    )
}

fn multipart(kind: &str, boundary: &str, parts: &[String]) -> String {
    let parts: String = parts.iter().map(|part| format!("--{boundary}\r\n{part}\r\n")).collect();
    format!(
        "Content-Type: multipart/{kind}; boundary=\"{boundary}\"\r\n\r\n{parts}--{boundary}--\r\n"
    )
}

fn folded_base64(bytes: &[u8]) -> String {
    // 57 bytes are 76 characters.
    let lines = bytes.chunks(57).map(|line| BASE64_STANDARD.encode(line) + "\r\n");
    lines.collect()
}

fn written(list: &[Mailbox]) -> String {
    list.iter().map(Mailbox::written).collect::<Vec<_>>().join(",\r\n ")
}

/// Removes characters that could end a header line.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn encoded_text(text: &str) -> String {
    let clean = clean(text);
    match clean.is_ascii() && clean.len() < 900 {
        true => clean,
        false => encoded(&clean),
    }
}

/// Encodes text as encoded words, split between characters.
fn encoded(text: &str) -> String {
    let mut words = vec![String::new()];
    for c in clean(text).chars() {
        if words.last().is_some_and(|word| word.len() + c.len_utf8() > WORD) {
            words.push(String::new());
        }
        words.last_mut().expect("there is a first word").push(c);
    }
    let words: Vec<String> =
        words.iter().map(|word| format!("=?utf-8?B?{}?=", BASE64_STANDARD.encode(word))).collect();
    words.join("\r\n ")
}

#[cfg(test)]
mod tests {
    use super::{super::message, *};

    #[test]
    fn what_is_composed_is_read_again() {
        let file = OutgoingFile {
            name: "Rechnung für \"ä\".pdf".into(),
            content_type: "application/pdf".into(),
            bytes: b"\0\xff%PDF".repeat(40),
            content_id: None,
        };
        let mail = Outgoing {
            from: Mailbox::new("Äcme \"Shop\"", "shop@acme.example"),
            to: Mailbox::list("Ann <ann@x.example>, bob@x.example"),
            bcc: Mailbox::list("hidden@x.example"),
            reply_to: Mailbox::list("reply@acme.example"),
            subject: "Größe ".repeat(40),
            text: Some("Grüße\r\n.\r\nend".into()),
            html: Some("<p>ü</p>".into()),
            headers: vec![
                ("X-Tag".into(), "a\r\nBcc: evil@x".into()),
                ("Subject".into(), "no".into()),
            ],
            files: vec![file],
            ..Outgoing::default()
        };
        let bytes = mail.compose(Timestamp::UNIX_EPOCH, "id1");
        assert!(bytes.is_ascii());
        assert!(bytes.split(|byte| *byte == b'\n').all(|line| line.len() < 998));
        let parsed = message::parse(&bytes);
        assert_eq!(parsed.from.as_deref(), Some("shop@acme.example"));
        assert_eq!(parsed.to, ["ann@x.example", "bob@x.example"]);
        assert_eq!(parsed.bcc, [""; 0]);
        assert_eq!(parsed.subject.trim(), "Größe ".repeat(40).trim());
        assert_eq!(parsed.text, mail.text);
        assert_eq!(parsed.html, mail.html);
        let [attachment] = &parsed.attachments[..] else { panic!("{:?}", parsed.attachments) };
        assert_eq!((attachment.name.as_str(), attachment.size), ("Rechnung für \"ä\".pdf", 240));
        assert!(parsed.headers.contains(&("X-Tag".into(), "a  Bcc: evil@x".into())));
        assert_eq!(parsed.headers.iter().filter(|(name, _)| name == "Subject").count(), 1);
        assert!(!parsed.is_broken);
    }

    #[test]
    fn mailboxes_are_read_in_their_forms() {
        let list = Mailbox::list("\"A, B\" <a@x.example>, b@x.example,");
        assert_eq!(list, [Mailbox::new("A, B", "a@x.example"), Mailbox::new("", "b@x.example")]);
        assert_eq!(Mailbox::list(""), []);
        for (address, valid) in
            [("a@b", true), ("a", false), ("@b", false), ("a@", false), ("a b@c", false)]
        {
            assert_eq!(Mailbox::new("", address).is_valid(), valid, "{address}");
        }
    }
}
