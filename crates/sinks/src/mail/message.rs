//! Parses a message.

use std::borrow::Cow;

use hothouse_model::record::bodies::Attachment;
use mail_parser::{
    Address, HeaderValue, Message, MessageParser, MimeHeaders, PartType, parsers::MessageStream,
};

use super::html::cut;

/// The maximum number of listed headers, addresses and attachments.
const LIST_LIMIT: usize = 1000;
const HEADER_LIMIT: usize = 200;

/// The maximum length of a header value and of a name, in bytes.
const VALUE_LIMIT: usize = 4096;
const NAME_LIMIT: usize = 255;

/// The content of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) from: Option<String>,
    pub(super) to: Vec<String>,
    pub(super) cc: Vec<String>,
    pub(super) bcc: Vec<String>,
    pub(super) subject: String,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) attachments: Vec<Attachment>,
    pub(super) headers: Vec<(String, String)>,
    /// Whether something in it could not be decoded.
    pub(super) is_broken: bool,
}

/// Parses a message. Never fails.
pub(super) fn parse(message: &[u8]) -> Parsed {
    let flat = flattened(message);
    let Some(found) = MessageParser::default().parse(flat.as_ref()) else {
        let text = String::from_utf8_lossy(message).into_owned();
        return Parsed { text: Some(text), is_broken: true, ..Parsed::default() };
    };
    Parsed {
        from: addresses(found.from()).into_iter().next(),
        to: found.all_to().flat_map(|list| addresses(Some(list))).take(LIST_LIMIT).collect(),
        cc: found.all_cc().flat_map(|list| addresses(Some(list))).take(LIST_LIMIT).collect(),
        bcc: found.all_bcc().flat_map(|list| addresses(Some(list))).take(LIST_LIMIT).collect(),
        subject: cut(found.subject().unwrap_or_default(), VALUE_LIMIT).to_owned(),
        text: joined(&found, &found.text_body, |body| match body {
            PartType::Text(text) => Some(text.as_ref()),
            _ => None,
        }),
        html: joined(&found, &found.html_body, |body| match body {
            PartType::Html(html) => Some(html.as_ref()),
            _ => None,
        }),
        attachments: attachments(&found),
        headers: headers(&found, flat.as_ref()),
        is_broken: found.parts.iter().any(|part| part.is_encoding_problem),
    }
}

/// Turns nested messages into plain attachments. The parser would parse them recursively, and
/// copying and dropping the result is recursive too.
fn flattened(message: &[u8]) -> Cow<'_, [u8]> {
    const NESTED: [&[u8]; 3] = [b"rfc822", b"global", b"digest"];
    let mut flat = Cow::Borrowed(message);
    let (mut at, mut is_type) = (0, false);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        let is_continued = line.starts_with(b" ") || line.starts_with(b"\t");
        is_type = is_type && is_continued || !find(line, b"content-type").is_empty();
        if is_type {
            for place in NESTED.iter().flat_map(|word| find(line, word)) {
                // `message/rfc822` becomes `message/xfc822`, which is not nested.
                flat.to_mut()[at + place] = b'x';
            }
        }
        at += line.len();
    }
    flat
}

/// Finds a word, ignoring case.
fn find(line: &[u8], word: &[u8]) -> Vec<usize> {
    let windows = line.windows(word.len()).enumerate();
    windows.filter(|(_, window)| window.eq_ignore_ascii_case(word)).map(|(at, _)| at).collect()
}

fn addresses(found: Option<&Address<'_>>) -> Vec<String> {
    let all = found.into_iter().flat_map(|list| list.iter());
    let plain = |address: &str| cut(address.trim(), NAME_LIMIT).to_owned();
    all.filter_map(|one| one.address().map(plain))
        .filter(|a| !a.is_empty())
        .take(LIST_LIMIT)
        .collect()
}

fn joined(
    message: &Message<'_>,
    ids: &[u32],
    pick: impl for<'a> Fn(&'a PartType<'a>) -> Option<&'a str>,
) -> Option<String> {
    let mut text: Option<String> = None;
    for part in ids.iter().filter_map(|id| message.parts.get(usize::try_from(*id).ok()?)) {
        let Some(piece) = pick(&part.body) else { continue };
        let text = text.get_or_insert_default();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(piece);
    }
    text
}

fn attachments(message: &Message<'_>) -> Vec<Attachment> {
    let attachment = |part: &mail_parser::MessagePart<'_>| {
        let kind = part.content_type();
        let (main, sub) =
            (kind.map_or("application", |k| k.ctype()), kind.and_then(|k| k.subtype()));
        let content_type = format!("{main}/{}", sub.unwrap_or("octet-stream"));
        Attachment {
            name: cut(part.attachment_name().unwrap_or_default(), NAME_LIMIT).to_owned(),
            content_type: cut(
                &content_type.replace("message/xfc822", "message/rfc822"),
                NAME_LIMIT,
            )
            .to_owned(),
            size: part.contents().len() as u64,
        }
    };
    message.attachments().take(HEADER_LIMIT).map(attachment).collect()
}

fn headers(message: &Message<'_>, raw: &[u8]) -> Vec<(String, String)> {
    let header = |header: &mail_parser::Header<'_>| {
        let range = header.offset_start as usize..header.offset_end as usize;
        let bytes = raw.get(range).unwrap_or_default();
        let value = match MessageStream::new(bytes).parse_unstructured() {
            HeaderValue::Text(text) => text.trim().to_owned(),
            _ => String::from_utf8_lossy(bytes).trim().to_owned(),
        };
        (cut(header.name(), NAME_LIMIT).to_owned(), cut(&value, VALUE_LIMIT).to_owned())
    };
    message.headers().iter().take(HEADER_LIMIT).map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        let message = "From: Ann <ann@x.example>\r\nTo: B <b@y.example>, c@y.example\r\nCc: team: d@y.example;\r\n\
             Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nX-Two: =?utf-8?b?w6Q=?=\r\n\
             Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: multipart/alternative; boundary=a\r\n\r\n\
             --a\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nf=FCr\r\n\
             --a\r\nContent-Type: text/html\r\n\r\n<p>x</p>\r\n--a--\r\n--m\r\nContent-Type: application/pdf\r\n\
             Content-Disposition: attachment; filename=\"../../etc/passwd\"\r\nContent-Transfer-Encoding: base64\r\n\r\nQUJD\r\n--m--\r\n";
        let parsed = parse(message.as_bytes());
        assert_eq!(parsed.from.as_deref(), Some("ann@x.example"));
        assert_eq!(parsed.to, ["b@y.example", "c@y.example"]);
        assert_eq!(parsed.cc, ["d@y.example"]);
        assert_eq!(parsed.subject, "Grüße");
        assert!(parsed.headers.contains(&("X-Two".into(), "ä".into())), "{:?}", parsed.headers);
        assert_eq!(parsed.text.as_deref().map(str::trim), Some("für"));
        assert_eq!(parsed.html.as_deref().map(str::trim), Some("<p>x</p>"));
        let [attachment] = &parsed.attachments[..] else { panic!("{:?}", parsed.attachments) };
        assert_eq!(attachment.name, "../../etc/passwd");
        assert_eq!((attachment.content_type.as_str(), attachment.size), ("application/pdf", 3));
        assert!(!parsed.is_broken);
    }

    #[test]
    fn a_mail_of_html_alone_has_no_text_part() {
        let parsed = parse(b"Subject: x\r\nContent-Type: text/html\r\n\r\n<b>x</b>");
        assert_eq!((parsed.text, parsed.html.as_deref()), (None, Some("<b>x</b>")));
        let parsed = parse(b"Subject: x\r\n\r\nhello");
        assert_eq!((parsed.text.as_deref(), parsed.html), (Some("hello"), None));
    }

    #[test]
    fn a_message_in_a_message_is_an_attachment() {
        let message = b"Subject: x\r\nContent-Type: Multipart/Mixed; boundary=m\r\n\r\n--m\r\nContent-Type: text/plain\r\n\r\nhi\r\n\
            --m\r\nContent-Type: Message/\r\n RFC822\r\n\r\nSubject: inner\r\n\r\nrfc822\r\n--m--\r\n";
        let parsed = parse(message);
        assert_eq!((parsed.subject.as_str(), parsed.attachments.len()), ("x", 1));
        assert_eq!(parsed.text.as_deref().map(str::trim), Some("hi"));
    }

    #[test]
    fn any_bytes_and_any_depth_can_be_read() {
        let many = 40_000;
        let deep = |part: &str| part.repeat(many).into_bytes();
        let encoded = base64::Engine::encode(
            &base64::prelude::BASE64_STANDARD,
            deep("Content-Type: message/rfc822\r\n\r\n"),
        );
        for message in [
            Vec::new(),
            b"\xff\xfe\0".to_vec(),
            b"no header at all".to_vec(),
            deep("Content-Type: message/rfc822\r\n\r\n"),
            deep("Content-Type: multipart/digest; boundary=a\r\n\r\n--a\r\n\r\n"),
            deep("Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n"),
            format!(
                "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n{encoded}"
            )
            .into_bytes(),
            deep("X: y\r\n"),
            deep("content-type"),
        ] {
            parse(&message);
        }
    }
}
