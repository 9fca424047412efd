//! The path of a request, interpreted in the only way that all servers agree on. Pure.
//!
//! A rule about paths works only if the proxy and the server interpret a path in the same way. Servers differ: some
//! decode twice, drop `;params`, treat a backslash as a slash, merge empty segments, or ignore a trailing dot. So a
//! path is decoded once, and one that any server could take for another is not judged at all: [`PlainPath::of`] rejects
//! it, and so does every gate, whether its rule allows or denies.
//!
//! An encoded slash is the one exception, because names of packages (`/@scope%2fname`) and projects
//! (`/projects/group%2Fname`) contain it: some servers treat it as a slash, others as an ordinary character. Both
//! readings are kept; an allow rule must match both, a deny rule either.

use std::fmt;

/// A decoded path that is unambiguous except for encoded slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainPath {
    /// Encoded slashes are slashes.
    split: String,
    /// Encoded slashes are part of their segments, written as `%2F`. There is no other `%`.
    whole: String,
}

/// What makes a request ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambiguity {
    /// It does not begin with a slash: `*`, or nothing.
    NoPath,
    /// `.` or `..` as a segment, or a segment that ends in a dot.
    Dots,
    /// Two slashes in a row.
    EmptySegment,
    Backslash,
    /// `;`, after which some servers stop reading a segment.
    Parameters,
    /// A control character, or a space at the end of a segment.
    Invisible,
    /// A backslash, semicolon, question mark, hash or percent sign that is encoded.
    Encoded,
    /// `%` without two digits after it, or bytes that are not UTF-8.
    BadEncoding,
    /// A character that some servers treat as another, such as a fullwidth dot.
    Lookalike,
    /// A method in other capitals than usual.
    Method,
}

impl fmt::Display for Ambiguity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPath => "it has no path",
            Self::Dots => "dots at the end of a segment",
            Self::EmptySegment => "an empty segment (`//`)",
            Self::Backslash => "a backslash",
            Self::Parameters => "a semicolon",
            Self::Invisible => "a control character, or a space at the end of a segment",
            Self::Encoded => "an encoded backslash, `;`, `?`, `#` or `%`",
            Self::BadEncoding => "a `%` without two digits, or bytes that are not UTF-8",
            Self::Lookalike => "a character that looks like another",
            Self::Method => "a method that is not in capitals",
        })
    }
}

impl PlainPath {
    /// Parses the path of a request, without its query.
    pub fn of(path: &str) -> Result<Self, Ambiguity> {
        let Some(below) = path.strip_prefix('/') else { return Err(Ambiguity::NoPath) };
        let whole = decode(path)?;
        let decoded = whole.replace(SLASH, "/");
        if path.contains([';', '?', '#']) {
            return Err(Ambiguity::Parameters);
        }
        if decoded.contains('\\') {
            return Err(Ambiguity::Backslash);
        }
        if decoded.contains(char::is_control) {
            return Err(Ambiguity::Invisible);
        }
        if decoded.contains(is_lookalike) {
            return Err(Ambiguity::Lookalike);
        }
        // Whatever is ambiguous in a segment of the other reading is ambiguous in one of these too.
        let segments: Vec<&str> = decoded.split('/').skip(1).collect();
        if segments.iter().any(|segment| segment.ends_with('.')) {
            return Err(Ambiguity::Dots);
        }
        if segments.iter().any(|segment| segment.trim() != *segment) {
            return Err(Ambiguity::Invisible);
        }
        let (_, inner) = segments.split_last().unwrap_or((&"", &[]));
        if !below.is_empty() && inner.iter().any(|segment| segment.is_empty()) {
            return Err(Ambiguity::EmptySegment);
        }
        Ok(Self { split: decoded, whole })
    }

    /// Returns whether it is the path of a rule, or below it, for every server.
    pub fn is_below(&self, above: &str) -> bool {
        let above = plain(above);
        is_below(&self.whole, &above.whole) && is_below(&self.split, &above.split)
    }

    /// Returns whether a case-insensitive server would treat it as the path of a rule, or one below it. A denied path
    /// is denied in any case.
    pub fn is_below_in_any_case(&self, above: &str) -> bool {
        is_below(&self.split.to_lowercase(), &plain(above).split.to_lowercase())
    }
}

/// How [`PlainPath::whole`] writes an encoded slash.
const SLASH: &str = "%2F";

/// Returns the path of a rule as it is compared; an ambiguous one equals no valid path.
fn plain(above: &str) -> PlainPath {
    let as_it_is = || PlainPath { split: above.to_owned(), whole: above.to_owned() };
    PlainPath::of(above).unwrap_or_else(|_| as_it_is())
}

fn is_below(path: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Decodes a path once, except for slashes.
fn decode(path: &str) -> Result<String, Ambiguity> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(Ambiguity::BadEncoding);
        };
        match u8::try_from(high * 16 + low).unwrap_or_default() {
            b'/' => decoded.extend(SLASH.bytes()),
            b'\\' | b';' | b'?' | b'#' | b'%' => return Err(Ambiguity::Encoded),
            byte => decoded.push(byte),
        }
    }
    // Overlong forms of a dot or a slash are not UTF-8.
    String::from_utf8(decoded).map_err(|_| Ambiguity::BadEncoding)
}

/// Returns whether a character becomes ASCII when text is folded (NFKC, case, Windows' best fit), or is dropped on the
/// way.
fn is_lookalike(c: char) -> bool {
    matches!(c,
        // Dots and slashes.
        '\u{2024}'..='\u{2026}' | '\u{2044}' | '\u{2215}' | '\u{2216}' | '\u{29f5}' | '\u{29f8}'
        | '\u{3002}' | '\u{fe30}' | '\u{fe52}' | '\u{fe68}' | '\u{ff61}'
        // Fullwidth letters, and those with an ASCII letter in the other case.
        | '\u{ff00}'..='\u{ff5e}' | '\u{130}' | '\u{131}' | '\u{17f}' | '\u{212a}' | '\u{212b}'
        // Circled, letterlike and mathematical letters.
        | '\u{aa}' | '\u{ba}' | '\u{2070}'..='\u{209c}' | '\u{2100}'..='\u{214f}'
        | '\u{2460}'..='\u{24ff}' | '\u{1d400}'..='\u{1d7ff}' | '\u{1f100}'..='\u{1f1ff}'
        // Invisible characters.
        | '\u{a0}' | '\u{ad}' | '\u{180e}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_is_plain_or_says_why_it_is_not() {
        for (path, expected) in [
            ("/", Ok("/")),
            ("/@scope%2fname", Ok("/@scope/name")),
            ("/projects/group%2Fname/x", Ok("/projects/group/name/x")),
            ("/admin", Ok("/admin")),
            ("/admin/", Ok("/admin/")),
            ("/%61dmin", Ok("/admin")),
            ("/a%20b/c%2Bd", Ok("/a b/c+d")),
            ("/v1/users/me@example.org:x", Ok("/v1/users/me@example.org:x")),
            ("/b%C3%BCcher", Ok("/bücher")),
            ("/.well-known/x", Ok("/.well-known/x")),
            ("", Err(Ambiguity::NoPath)),
            ("*", Err(Ambiguity::NoPath)),
            ("x/admin", Err(Ambiguity::NoPath)),
            ("/x/../admin", Err(Ambiguity::Dots)),
            ("/x/%2e%2E/admin", Err(Ambiguity::Dots)),
            ("/x/.%2e/admin", Err(Ambiguity::Dots)),
            ("/./admin", Err(Ambiguity::Dots)),
            ("/admin/.", Err(Ambiguity::Dots)),
            ("/admin.", Err(Ambiguity::Dots)),
            ("/v1/...", Err(Ambiguity::Dots)),
            ("//admin", Err(Ambiguity::EmptySegment)),
            ("/x//admin", Err(Ambiguity::EmptySegment)),
            ("/admin//", Err(Ambiguity::EmptySegment)),
            ("/x%2f..%2fadmin", Err(Ambiguity::Dots)),
            ("/x%2f%2e%2e/admin", Err(Ambiguity::Dots)),
            ("/x%2f.", Err(Ambiguity::Dots)),
            ("/%2fadmin", Err(Ambiguity::EmptySegment)),
            ("/x%2f%2fadmin", Err(Ambiguity::EmptySegment)),
            ("/x%2f/admin", Err(Ambiguity::EmptySegment)),
            ("/admin%252fkeys", Err(Ambiguity::Encoded)),
            ("/x%5cadmin", Err(Ambiguity::Encoded)),
            ("/%252e%252e/admin", Err(Ambiguity::Encoded)),
            ("/v1/%25", Err(Ambiguity::Encoded)),
            ("/admin%3bx", Err(Ambiguity::Encoded)),
            ("/admin%3fx", Err(Ambiguity::Encoded)),
            ("/admin%23", Err(Ambiguity::Encoded)),
            ("/admin;x=1", Err(Ambiguity::Parameters)),
            ("/v1/..;/admin", Err(Ambiguity::Parameters)),
            ("/admin?x", Err(Ambiguity::Parameters)),
            ("/x\\admin", Err(Ambiguity::Backslash)),
            ("/v1/..%09/admin", Err(Ambiguity::Invisible)),
            ("/admin%00", Err(Ambiguity::Invisible)),
            ("/admin%0a", Err(Ambiguity::Invisible)),
            ("/admin%7f", Err(Ambiguity::Invisible)),
            ("/admin%C2%85", Err(Ambiguity::Invisible)),
            ("/admin%20", Err(Ambiguity::Invisible)),
            ("/admin%20/x", Err(Ambiguity::Invisible)),
            ("/%20admin", Err(Ambiguity::Invisible)),
            ("/%c0%ae%c0%ae/admin", Err(Ambiguity::BadEncoding)),
            ("/%e0%80%af", Err(Ambiguity::BadEncoding)),
            ("/%ff", Err(Ambiguity::BadEncoding)),
            ("/%u002e", Err(Ambiguity::BadEncoding)),
            ("/%2", Err(Ambiguity::BadEncoding)),
            ("/%zz", Err(Ambiguity::BadEncoding)),
            ("/%EF%BC%8E%EF%BC%8E/admin", Err(Ambiguity::Lookalike)),
            ("/%EF%BD%81dmin", Err(Ambiguity::Lookalike)),
            ("/\u{17f}ecret", Err(Ambiguity::Lookalike)),
            ("/ad%E2%80%8Bmin", Err(Ambiguity::Lookalike)),
        ] {
            let found = PlainPath::of(path);
            assert_eq!(
                found.as_ref().map(|path| path.split.as_str()),
                expected.as_ref().copied(),
                "{path}"
            );
        }
    }

    #[test]
    fn below_means_whole_segments() {
        let path = |text: &str| PlainPath::of(text).unwrap();
        assert!(path("/v1").is_below("/v1") && path("/v1/x").is_below("/v1/"));
        assert!(path("/a%20b/c").is_below("/a%20b") && path("/x").is_below("/"));
        assert!(!path("/v1x").is_below("/v1") && !path("/V1").is_below("/v1"));
        assert!(path("/V1/x").is_below_in_any_case("/v1"));
        assert!(!path("/v1").is_below("/v1;x"));
    }

    #[test]
    fn an_encoded_slash_passes_only_where_both_readings_agree() {
        for (path, rule, allowed, denied) in [
            ("/@scope%2fname", "/", true, true),
            ("/@scope%2fname", "/@scope%2Fname", true, true),
            ("/@scope%2fname/-/x.tgz", "/@scope%2fname", true, true),
            ("/projects/group%2Fname/x", "/projects", true, true),
            // Servers disagree whether this path is below the rule.
            ("/@scope%2fname", "/@scope", false, true),
            ("/@scope%2fname", "/@scope/name", false, true),
            ("/@scope/name", "/@scope%2fname", false, true),
            ("/v1%2f", "/v1", false, true),
            ("/v1%2fx/y", "/v1/x", false, true),
            ("/V1%2Fx", "/v1", false, true),
            ("/admin%2fkeys", "/admin", false, true),
            ("/a%2fb", "/a%2fb%2fc", false, false),
            ("/x%2fadmin", "/admin", false, false),
            ("/adminx%2fy", "/admin", false, false),
        ] {
            let plain = PlainPath::of(path).unwrap();
            assert_eq!(plain.is_below(rule), allowed, "{path} {rule}");
            assert_eq!(plain.is_below_in_any_case(rule), denied, "{path} {rule}");
        }
    }

    /// Returns what servers do to a path before they look it up.
    fn served(path: &str) -> Vec<String> {
        let once = |text: &str| {
            let mut all = Vec::new();
            let bytes = text.as_bytes();
            let mut at = 0;
            while at < bytes.len() {
                let code =
                    text.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok());
                match (bytes[at], code) {
                    (b'%', Some(byte)) => (all.push(byte), at += 3).0,
                    (byte, _) => (all.push(byte), at += 1).0,
                }
            }
            String::from_utf8_lossy(&all).into_owned()
        };
        let resolve = |text: &str| {
            let mut parts: Vec<&str> = Vec::new();
            for part in text.split('/') {
                match part.split(';').next().unwrap_or_default().trim_matches([' ', '\t', '\0']) {
                    "" | "." => {}
                    ".." => drop(parts.pop()),
                    part => parts.push(part.trim_end_matches('.')),
                }
            }
            format!("/{}", parts.join("/"))
        };
        let (one, two) = (once(path), once(&once(path)));
        let mut all: Vec<String> = [path, &one, &two].map(&resolve).into();
        all.extend([one, two].map(|text| resolve(&text.replace('\\', "/"))));
        all
    }

    proptest! {
        #[test]
        fn a_path_that_is_plain_is_served_as_what_it_was_judged_for(
            path in "(/|//|\\\\|;|%2f|%2e|%25|%61|%41|%5c|%09|%20|%00|%3b|\\.|\\.\\.|a|admin|x| |%){0,12}"
        ) {
            let path = format!("/{path}");
            if let Ok(plain) = PlainPath::of(&path) {
                for served in served(&path) {
                    let judged = plain.is_below_in_any_case("/admin");
                    let meant = served.to_lowercase();
                    // A server that decodes nothing finds nothing under an encoded name.
                    let undecoded = meant.contains('%');
                    prop_assert!(undecoded || judged == is_below(&meant, "/admin"), "{path} {served}");
                    // An allowed path is below the rule for every server.
                    let allowed = plain.is_below("/admin");
                    let lower = is_below(&served, "/admin");
                    prop_assert!(!allowed || lower, "{path} {served}");
                }
            }
        }

        #[test]
        fn no_text_breaks_it(path in "\\PC{0,40}") {
            if let Ok(plain) = PlainPath::of(&path) {
                prop_assert!(!plain.split.contains("//") && !plain.split.contains("/../"));
            }
        }
    }
}
