//! Decides which events belong to one issue, and why.
//!
//! The rules have a version, which is the prefix of every key: events grouped by other rules are
//! never mistaken for the same issue. In order: the fingerprint that the app sets; the type with
//! the app's own frames; the type with the message, in which variable parts are replaced.

use std::{borrow::Cow, sync::LazyLock};

use aws_lc_rs::digest::{SHA256, digest};
use hothouse_model::{
    id::hex,
    record::{
        Kind,
        bodies::{ErrorBody, ErrorGroup, Frame},
    },
};
use regex_lite::{Captures, Regex};

/// The version of the rules.
const VERSION: &str = "v1";

/// The maximum length of a key that is shown completely, in bytes.
const KEY_LIMIT: usize = 1000;

/// How much of a message is used, in bytes.
const MESSAGE_LIMIT: usize = 1000;

/// The maximum number of frames in a key, innermost first.
const FRAME_LIMIT: usize = 20;

/// Returns the group of an event.
pub(super) fn group(body: &ErrorBody, fingerprint: &[String]) -> ErrorGroup {
    let is_default = |part: &String| matches!(part.trim(), "{{ default }}" | "{{default}}");
    let own: Vec<&String> = fingerprint.iter().filter(|part| !is_default(part)).collect();
    let mut components = Vec::new();
    if !own.is_empty() {
        components.extend(own.iter().map(|part| format!("fingerprint of the app: {part}")));
    }
    if own.is_empty() || fingerprint.iter().any(is_default) {
        components.extend(defaults(body));
    }
    ErrorGroup { key: key(&components), components }
}

/// Derives the id of an issue.
pub(super) fn id(group: &ErrorGroup) -> String {
    let hash = digest(&SHA256, group.key.as_bytes());
    let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
    Kind::Error.id(first)
}

fn defaults(body: &ErrorBody) -> Vec<String> {
    let mut components = vec![format!("type: {}", body.error_type)];
    let frames: Vec<String> = body.frames.iter().filter(|frame| frame.in_app).map(place).collect();
    let nearest = &frames[frames.len().saturating_sub(FRAME_LIMIT)..];
    match nearest.is_empty() {
        true => components.push(format!("message: {}", normalised(&body.message))),
        false => components.extend(nearest.iter().map(|frame| format!("frame: {frame}"))),
    }
    components
}

/// Joins components. A long key is truncated, followed by a hash of the whole.
fn key(components: &[String]) -> String {
    let whole = format!("{VERSION} {}", components.join(" | "));
    if whole.len() <= KEY_LIMIT {
        return whole;
    }
    let hash = hex(digest(&SHA256, whole.as_bytes()).as_ref());
    format!("{}… {hash}", crate::errors::event::cut(&whole, KEY_LIMIT - 100))
}

/// Describes a frame by what is stable between builds and machines.
fn place(frame: &Frame) -> String {
    let module = frame.module.as_deref().filter(|module| !module.is_empty());
    let file = module.map_or_else(|| plain_file(&frame.file), str::to_owned);
    format!("{} in {file}", plain_function(&frame.function))
}

/// Removes host, query, the top folders and the hash of a bundle.
fn plain_file(file: &str) -> String {
    static HASH: LazyLock<Regex> = LazyLock::new(|| regex(r"[.-][0-9a-fA-F]{8,}(\.[A-Za-z]+)$"));
    let file = file.split(['?', '#']).next().unwrap_or_default().replace('\\', "/");
    let path = match file.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => file.as_str(),
    };
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let short = parts[parts.len().saturating_sub(3)..].join("/");
    match has_hash(&short) {
        true => HASH.replace(&short, "$1").into_owned(),
        false => short,
    }
}

fn plain_function(function: &str) -> String {
    static SUFFIX: LazyLock<Regex> = LazyLock::new(|| {
        regex(r"(\$[0-9]+|[_$.-](0x)?[0-9a-fA-F]{8,}|__h[0-9a-f]{16}|::h[0-9a-f]{16})+$")
    });
    let name = function.trim().trim_start_matches("async ").trim_start_matches("new ");
    let name = match name.contains('$') || has_hash(name) {
        true => SUFFIX.replace(name, ""),
        false => name.into(),
    };
    match name.as_ref() {
        "" | "?" | "anonymous" | "<anonymous>" | "(anonymous)" | "{anonymous}" | "{closure}" => {
            "?".to_owned()
        }
        name => name.replace("<anonymous>", "?"),
    }
}

/// Returns whether a name has eight hexadecimal digits in a row, as hashes do. Few names have, and
/// looking for them costs much less than a pattern.
fn has_hash(name: &str) -> bool {
    let mut digits = 0;
    name.bytes().any(|byte| {
        digits = if byte.is_ascii_hexdigit() { digits + 1 } else { 0 };
        digits == 8
    })
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// Replaces the parts of a message that vary between events.
pub(super) fn normalised(message: &str) -> String {
    static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'`<>\x22]+", "<url>"),
            (r"\b[\w.+-]+@[\w-]+(\.[\w-]+)+", "<email>"),
            (
                r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
                "<uuid>",
            ),
            (
                r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?(Z|[+-]\d\d:?\d\d))?)?",
                "<date>",
            ),
            (r"\b\d\d?:\d\d(:\d\d([.,]\d+)?)?\b", "<time>"),
            (r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b", "<ip>"),
            (r"\b0x[0-9a-fA-F]+\b", "<hex>"),
            (r"\b[0-9a-fA-F]{16,}\b", "<hex>"),
        ]
        .map(|(pattern, name)| (regex(pattern), name))
        .into()
    });
    static QUOTED: LazyLock<Regex> =
        LazyLock::new(|| regex(r#"(^|[\s(=:\[{,])('[^'\n]*'|"[^"\n]*"|`[^`\n]*`)"#));
    static NAMED: LazyLock<Regex> = LazyLock::new(|| regex(r"\b[a-zA-Z]+_[A-Za-z0-9]{6,}\b"));
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| regex(r"-?\b\d+([.,]\d+)*\b"));
    let line = message.trim().lines().next().unwrap_or_default();
    let mut text = Cow::Borrowed(crate::errors::event::cut(line, MESSAGE_LIMIT));
    for (rule, name) in RULES.iter() {
        text = rule.replace_all(&text, *name).into_owned().into();
    }
    let text = QUOTED.replace_all(&text, "$1<quoted>");
    // Ids such as `cus_N1x2y3`: a name without digits stays.
    let text = NAMED.replace_all(&text, |found: &Captures<'_>| {
        let found = &found[0];
        let has_digit = found.contains(|c: char| c.is_ascii_digit());
        if has_digit { "<id>".to_owned() } else { found.to_owned() }
    });
    NUMBER.replace_all(&text, "<number>").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_in_a_message_is_replaced() {
        for (message, expected) in [
            ("user 42 not found", "user <number> not found"),
            ("no row 3fa85f64-5717-4562-b3fc-2c963f66afa6", "no row <uuid>"),
            ("mail to ann@x.example failed after 1.5 s", "mail to <email> failed after <number> s"),
            ("GET https://x.example/a?b=1 at 2026-11-17T08:00:00.123Z", "GET <url> at <date>"),
            ("connect 10.0.0.1:5432 at 0x7ffee0", "connect <ip> at <hex>"),
            ("KeyError: 'plan' in {\"a\": 1}", "KeyError: <quoted> in {<quoted>: <number>}"),
            ("can't read x of y's z", "can't read x of y's z"),
            (
                "no such customer cus_N1x2y3z4 in customer_accounts",
                "no such customer <id> in customer_accounts",
            ),
            ("first\nsecond 7", "first"),
            ("deadbeefdeadbeef01 x2", "<hex> x2"),
        ] {
            assert_eq!(normalised(message), expected, "{message}");
        }
    }

    fn body(message: &str, frames: &[(&str, &str, bool)]) -> ErrorBody {
        let frame = |(function, file, in_app): &(&str, &str, bool)| Frame {
            function: (*function).into(),
            file: (*file).into(),
            in_app: *in_app,
            ..Frame::default()
        };
        ErrorBody {
            error_type: "TypeError".into(),
            message: message.into(),
            frames: frames.iter().map(frame).collect(),
            ..ErrorBody::default()
        }
    }

    fn is_one(a: &ErrorBody, b: &ErrorBody) -> bool {
        id(&group(a, &[])) == id(&group(b, &[]))
    }

    #[test]
    fn events_of_one_place_are_one_issue() {
        let own = |function, file| {
            body("x", &[("lib", "node_modules/l.js", false), (function, file, true)])
        };
        let first = own("pay", "/srv/a/src/pay.js");
        assert!(is_one(&first, &own("pay", "/elsewhere/b/a/src/pay.js?v=2")));
        assert!(is_one(&first, &body("another 7", &[("pay", "file:///srv/a/src/pay.js", true)])));
        assert!(is_one(
            &own("f", "https://a.example/x/app.1a2b3c4d5e.js"),
            &own("f$2", "https://b.example/x/app.ffffffff00.js#m")
        ));
        assert!(!is_one(&first, &own("refund", "/srv/a/src/pay.js")));
        assert!(!is_one(&first, &body("x", &[])));
        assert!(is_one(&body("row 1", &[("lib", "l", false)]), &body("row 2", &[])));
    }

    #[test]
    fn the_app_decides_if_it_wants_to_and_the_reason_is_shown() {
        let (a, b) = (body("one", &[]), body("two", &[]));
        let own = ["checkout".to_owned()];
        assert_eq!(group(&a, &own), group(&b, &own));
        assert_eq!(group(&a, &own).components, ["fingerprint of the app: checkout"]);
        let with_default = ["{{ default }}".to_owned(), "checkout".to_owned()];
        assert_ne!(group(&a, &with_default).key, group(&b, &with_default).key);
        assert_eq!(
            group(&a, &with_default).components,
            ["fingerprint of the app: checkout", "type: TypeError", "message: one"]
        );
        assert_eq!(group(&a, &["{{ default }}".to_owned()]), group(&a, &[]));
        assert_eq!(group(&a, &[]).key, "v1 type: TypeError | message: one");
    }

    #[test]
    fn a_long_key_is_bounded_and_still_tells_apart() {
        let long = |last: &str| [format!("{}{last}", "x".repeat(5000))];
        let (a, b) = (group(&body("", &[]), &long("a")), group(&body("", &[]), &long("b")));
        assert!(a.key.len() <= KEY_LIMIT && a.key != b.key);
    }
}
