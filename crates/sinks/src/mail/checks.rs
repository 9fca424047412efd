//! Checks for problems that readers of a mail, or their mail servers, may have with it.

use hothouse_model::record::bodies::MailCheck;

use super::{html::Seen, message::Parsed};

/// The maximum number of examples per sentence.
const EXAMPLES: usize = 3;

/// Checks a mail.
pub(super) fn check(mail: &Parsed, seen: &Seen, envelope_from: &str) -> Vec<MailCheck> {
    let has_header = |wanted: &str| {
        mail.headers
            .iter()
            .any(|(name, value)| name.eq_ignore_ascii_case(wanted) && !value.is_empty())
    };
    let relative = seen.links.iter().filter(|link| is_relative(link));
    let sources = || seen.images.iter().flatten();
    let unsourced = seen.images.iter().filter(|source| source.is_none()).count();
    let remote = sources().filter(|source| is_remote(source));
    let broken = sources().filter(|source| !is_remote(source) && !is_embedded(source));
    let found = [
        (mail.text.is_none() && mail.html.is_some()).then(|| {
            ("no-text-part", "there is no text part: some readers see nothing".to_owned())
        }),
        (mail.text.is_none() && mail.html.is_none())
            .then(|| ("empty", "there is no text and no html".to_owned())),
        mail.subject.trim().is_empty().then(|| ("no-subject", "there is no subject".to_owned())),
        examples(relative)
            .map(|list| ("relative-link", format!("links lead nowhere in a mail: {list}"))),
        (unsourced > 0)
            .then(|| ("image-without-source", format!("images without a source: {unsourced}"))),
        examples(broken)
            .map(|list| ("broken-image", format!("images that no mail program can load: {list}"))),
        examples(remote).map(|list| {
            ("remote-image", format!("images that many mail programs do not load: {list}"))
        }),
        unaligned(mail, envelope_from).map(|text| ("unaligned-from", text)),
        (!has_header("message-id"))
            .then(|| ("no-message-id", "there is no Message-ID header".to_owned())),
        (!has_header("date")).then(|| ("no-date", "there is no Date header".to_owned())),
        mail.is_broken.then(|| ("broken-mime", "parts of it could not be decoded".to_owned())),
    ];
    let made = found.into_iter().flatten();
    made.map(|(check, text)| MailCheck { check: check.to_owned(), text }).collect()
}

fn is_relative(link: &str) -> bool {
    let scheme = link.split_once(':').map(|(scheme, _)| scheme);
    let has_scheme = scheme.is_some_and(|scheme| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    !has_scheme && !link.starts_with('#')
}

fn is_remote(source: &str) -> bool {
    ["http://", "https://", "//"].iter().any(|scheme| source.starts_with(scheme))
}

fn is_embedded(source: &str) -> bool {
    source.starts_with("data:") || source.starts_with("cid:")
}

fn examples<'a>(all: impl Iterator<Item = &'a String>) -> Option<String> {
    let all: Vec<_> = all.collect();
    let shown: Vec<String> = all.iter().take(EXAMPLES).map(|one| format!("`{one}`")).collect();
    let more = all.len().saturating_sub(EXAMPLES);
    match (shown.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown.join(", ")),
        (false, more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}

/// Compares the domains of header and envelope, as SPF with DMARC does: one may be a subdomain of
/// the other.
fn unaligned(mail: &Parsed, envelope_from: &str) -> Option<String> {
    let Some(from) = &mail.from else {
        return Some("there is no address in the From header".to_owned());
    };
    let domain = |address: &str| Some(address.rsplit_once('@')?.1.to_ascii_lowercase());
    let Some(shown) = domain(from) else {
        return Some(format!("the From address `{from}` has no domain"));
    };
    // Bounces have an empty envelope sender.
    let sender = domain(envelope_from)?;
    let is_within = |a: &str, b: &str| a == b || a.ends_with(&format!(".{b}"));
    let is_aligned = is_within(&shown, &sender) || is_within(&sender, &shown);
    (!is_aligned)
        .then(|| format!("From is of `{shown}`, but the envelope of `{sender}`: DMARC may fail"))
}

#[cfg(test)]
mod tests {
    use super::{super::html, *};

    fn names(headers: &str, body: &str, envelope_from: &str) -> Vec<String> {
        let mail = super::super::message::parse(format!("{headers}\r\n\r\n{body}").as_bytes());
        let seen = html::look(mail.html.as_deref().unwrap_or_default());
        check(&mail, &seen, envelope_from).into_iter().map(|check| check.check).collect()
    }

    const GOOD: &str = "From: a@x.example\r\nSubject: s\r\nMessage-ID: <1@x>\r\nDate: Tue, 17 Nov 2026 08:00:00 +0000";

    #[test]
    fn a_good_mail_has_no_findings() {
        assert_eq!(names(GOOD, "hello", "bounce@mail.x.example"), [""; 0]);
        assert_eq!(names(GOOD, "hello", ""), [""; 0]);
    }

    #[test]
    fn each_fault_is_found() {
        let html = format!("{GOOD}\r\nContent-Type: text/html");
        for (headers, body, from, expected) in [
            (html.as_str(), "<p>x", "a@x.example", vec!["no-text-part"]),
            (&html, "<a href=/r>x</a><a href=#top>", "", vec!["no-text-part", "relative-link"]),
            (
                &html,
                "<a href=mailto:a@b>x</a><img>",
                "",
                vec!["no-text-part", "image-without-source"],
            ),
            (
                &html,
                "<img src=https://x/y.png><img src=cid:1>",
                "",
                vec!["no-text-part", "remote-image"],
            ),
            (&html, "<img src=/logo.png>", "", vec!["no-text-part", "broken-image"]),
            (GOOD, "x", "a@evil.example", vec!["unaligned-from"]),
            ("Subject: s", "x", "", vec!["unaligned-from", "no-message-id", "no-date"]),
        ] {
            assert_eq!(names(headers, body, from), expected, "{headers} {body} {from}");
        }
    }
}
