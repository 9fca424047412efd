//! Normalizes texts: replaces ids, times, tokens, ports and the names of the sandbox, which differ between runs.
//!
//! Without regular expressions, because a comparison reads every text of ten thousand records.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// This many digits in a row are a timestamp rather than an amount.
const MOMENT: usize = 9;

/// The minimum length of a token of mixed letters and digits.
const TOKEN: usize = 16;

/// The minimum length of a token within a word, if it has digits and letters of both cases.
const PART: usize = 8;

/// The minimum length of an id after a prefix, as in `pi_3MtwBw`.
const AFTER_PREFIX: usize = 6;

/// The minimum length of a part of a word that can be the beginning of a known token.
const BEGINNING: usize = 6;

/// The maximum number of hyphenated parts of a known token.
const PARTS: usize = 6;

/// The maximum number of known tokens per side.
const TOKENS: usize = 10_000;

/// How often a random word switches between digits and letters.
const CHANGES: usize = 4;

/// What is replaced in the texts of one side.
#[derive(Clone, Debug, Default)]
pub struct Normal {
    names: BTreeMap<String, &'static str>,
    /// Random values of parameters, such as the key of a link. Apps use their beginnings elsewhere.
    tokens: BTreeSet<String>,
}

impl Normal {
    /// Takes the names of a side's sandbox and run.
    pub fn new(sandbox: &str, run: &str) -> Self {
        let names = [(sandbox.to_owned(), "SANDBOX"), (run.to_owned(), "RUN")];
        let names = names.into_iter().filter(|(name, _)| !name.is_empty()).collect();
        Self { names, tokens: BTreeSet::new() }
    }

    /// Remembers parameter values in a text that look random: `key=jwWBWaJqHWp9YQ6_`, also with `=` as `%3D`.
    pub fn learn(&mut self, text: &str) {
        for (at, _) in text.match_indices('=').chain(text.match_indices("%3D")) {
            let rest = text[at..].trim_start_matches('=').trim_start_matches("%3D");
            let end = rest.find(|c| !is_of_token(c)).unwrap_or(rest.len());
            if is_made_up(&rest[..end]) && self.tokens.len() < TOKENS {
                self.tokens.insert(rest[..end].to_owned());
            }
        }
    }

    /// Returns whether a word is a known token, or the beginning of one.
    fn is_known(&self, word: &str) -> bool {
        let begins = |token: &String| token.starts_with(word);
        word.len() >= BEGINNING && self.tokens.range(word.to_owned()..).next().is_some_and(begins)
    }

    /// Returns a text with placeholders for everything that differs between runs.
    pub fn text(&self, text: &str) -> String {
        let mut all = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
            let (token, after) = rest.split_at(end);
            self.push_token(&mut all, token);
            let next = after.find(is_inner).unwrap_or(after.len());
            let next = next + escaped(&after[..next], &after[next..]);
            all.push_str(&after[..next]);
            rest = &after[next..];
        }
        all
    }

    fn push_token(&self, all: &mut String, token: &str) {
        if token.is_empty() {
            return;
        }
        let bare = token.trim_end_matches(['.', ':', '-', '+']);
        if is_time(bare) {
            all.push_str("TIME");
            all.push_str(&token[bare.len()..]);
            return;
        }
        let (host, has_port) = without_port(token);
        let is_own_host = host.ends_with(".localhost");
        for word in host.split_inclusive(['.', ':', '+']) {
            let inner = word.trim_end_matches(['.', ':', '+']);
            match self.names.get(inner).filter(|_| is_own_host || is_distinct(inner)) {
                Some(name) => all.push_str(name),
                None => all.push_str(&self.word(inner)),
            }
            all.push_str(&word[inner.len()..]);
        }
        if has_port {
            all.push_str(":PORT");
        }
    }

    fn word<'w>(&self, word: &'w str) -> Cow<'w, str> {
        if !self.tokens.is_empty() && self.is_known(word) {
            return Cow::Borrowed("ID");
        }
        if let Some(text) = self.with_known_parts(word) {
            return Cow::Owned(text);
        }
        match word.rsplit_once('_') {
            Some((prefix, rest)) if rest.len() >= AFTER_PREFIX && is_mixed(rest) => {
                Cow::Owned(format!("{prefix}_ID"))
            }
            _ if is_id(word) => Cow::Borrowed("ID"),
            _ if word.contains('-') && word.split('-').any(is_token) => {
                let part = |part| if is_token(part) { "ID" } else { part };
                Cow::Owned(word.split('-').map(part).collect::<Vec<_>>().join("-"))
            }
            _ => Cow::Borrowed(word),
        }
    }

    /// Replaces the part of a hyphenated word that begins a known token. Such a token may contain hyphens.
    fn with_known_parts(&self, word: &str) -> Option<String> {
        if self.tokens.is_empty() || !word.contains('-') {
            return None;
        }
        let parts: Vec<&str> = word.split('-').collect();
        let (mut all, mut at, mut has_known) = (Vec::new(), 0, false);
        while at < parts.len() {
            let ends = (at + 1..=parts.len().min(at + PARTS)).rev();
            let known = ends.into_iter().find(|end| self.is_known(&parts[at..*end].join("-")));
            let is_id = known.is_some() || is_token(parts[at]);
            all.push(if is_id { "ID" } else { parts[at] });
            has_known |= known.is_some();
            at = known.unwrap_or(at + 1);
        }
        has_known.then(|| all.join("-"))
    }
}

/// Returns how many bytes belong to an escape such as `%3D` that begins in the text before.
fn escaped(before: &str, rest: &str) -> usize {
    let digits = rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count();
    if before.ends_with('%') && digits == 2 { 2 } else { 0 }
}

fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns whether a value looks random: long, with digits, and with letters of both cases or many switches between
/// digits and letters.
fn is_made_up(value: &str) -> bool {
    let plain: Vec<u8> = value.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let has = |is: fn(&u8) -> bool| plain.iter().any(is);
    let changes = plain
        .windows(2)
        .filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit())
        .count();
    let both_cases = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    plain.len() >= TOKEN && has(u8::is_ascii_digit) && (both_cases || changes >= CHANGES)
}

fn is_inner(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '+')
}

/// Returns whether a word is a timestamp or a time of day.
fn is_time(word: &str) -> bool {
    let bytes = word.as_bytes();
    let digits = |from: usize, to: usize| {
        bytes.get(from..to).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let is = |at: usize, c: u8| bytes.get(at) == Some(&c);
    let clock = |at: usize| {
        digits(at, at + 2)
            && is(at + 2, b':')
            && digits(at + 3, at + 5)
            && is(at + 5, b':')
            && digits(at + 6, at + 8)
    };
    let date = digits(0, 4) && is(4, b'-') && digits(5, 7) && is(7, b'-') && digits(8, 10);
    clock(0) || date && (word.len() == 10 || matches!(bytes[10], b'T' | b't') && clock(11))
}

/// Cuts off the port of a local host.
fn without_port(token: &str) -> (&str, bool) {
    let Some((host, port)) = token.rsplit_once(':') else { return (token, false) };
    let own = host.ends_with("localhost") || host == "127.0.0.1";
    let is_port = !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit());
    if own && is_port { (host, true) } else { (token, false) }
}

/// Returns whether a word is an id, rather than an ordinary word or an amount.
fn is_id(word: &str) -> bool {
    let all = |is: fn(&u8) -> bool| word.bytes().all(|c| is(&c));
    let is_number = all(u8::is_ascii_digit);
    is_number && word.len() >= MOMENT
        || is_uuid(word)
        || word.len() >= 12 && all(u8::is_ascii_hexdigit) && is_mixed(word)
        || word.len() >= TOKEN && is_mixed(word) && !word.contains(['-', '_'])
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word.bytes().enumerate().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == b'-',
            _ => c.is_ascii_hexdigit(),
        })
}

/// Returns whether a part of a word looks random: with digits, and letters of both cases.
fn is_token(part: &str) -> bool {
    part.len() >= PART
        && is_mixed(part)
        && part.bytes().any(|c| c.is_ascii_lowercase())
        && part.bytes().any(|c| c.is_ascii_uppercase())
}

/// Returns whether a name is unlikely to occur in a text by chance: a sandbox may be called `cart`, or `a`.
fn is_distinct(name: &str) -> bool {
    name.contains(['-', '_']) || is_mixed(name)
}

/// Returns whether a word has both letters and digits.
fn is_mixed(word: &str) -> bool {
    word.bytes().any(|c| c.is_ascii_digit()) && word.bytes().any(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_times_and_names_go_and_amounts_stay() {
        let normal = Normal::new("agent-a", "run_0123456789abcdef");
        for (text, expected) in [
            ("Order 1042: 19.99 EUR", "Order 1042: 19.99 EUR"),
            ("at 2026-11-17T11:12:04.123Z.", "at TIME."),
            ("at 11:12:04, 2026-11-17", "at TIME, TIME"),
            (
                "https://web.agent-a.acme.localhost:8443/buy?x=1",
                "https://web.SANDBOX.acme.localhost:PORT/buy?x=1",
            ),
            ("http://127.0.0.1:43102/", "http://127.0.0.1:PORT/"),
            ("pi_3MtwBwLkdIwHu7ix28a3tqPa paid", "pi_ID paid"),
            ("cs_test_a1B2c3D4", "cs_test_ID"),
            ("mail_0123456789abcdef", "mail_ID"),
            ("run_0123456789abcdef", "RUN"),
            ("3f2b8c1e-0000-4000-8000-1234567890ab", "ID"),
            ("1700000000", "ID"),
            ("invoices/A-10043-UIT70Y4h.html", "invoices/A-10043-ID.html"),
            ("s8s7mqttzglzfmmu", "ID"),
            ("checkout_completed and receipt_mail", "checkout_completed and receipt_mail"),
            ("a longest-word-of-all-2 remains", "a longest-word-of-all-2 remains"),
            ("grüße, 東京", "grüße, 東京"),
            ("", ""),
            (":::...", ":::..."),
        ] {
            assert_eq!(normal.text(text), expected);
        }
    }

    #[test]
    fn a_sandbox_that_is_called_by_a_plain_word_leaves_that_word_in_texts() {
        let normal = Normal::new("b", "run_0123456789abcdef");
        for (text, expected) in [
            ("<b>bold</b>, a and b", "<b>bold</b>, a and b"),
            ("https://web.b.acme.localhost/", "https://web.SANDBOX.acme.localhost/"),
        ] {
            assert_eq!(normal.text(text), expected);
        }
    }

    #[test]
    fn keys_of_links_go_wherever_they_or_their_beginnings_are() {
        let mut normal = Normal::new("a", "b");
        normal.learn("https://web/orders/A-10043?key=jwWBWaJqHWp9YQ6_x-QRstuv&payment=done");
        normal.learn("return=https%3A%2F%2Fweb%2Forders%3Fkey%3Dblf9g9gxv14-k2m8q0r7");
        for key in ["Gg5BJp-oQW3rT9xyzABC", "Ab-9xYz1QW3rT9xyzABC", "q_R7sT8u9QW3rT9xyzABC"] {
            normal.learn(&format!("/orders/A-10043?key={key}"));
        }
        normal.learn("colour=longest-word-of-all-2 size=harbour-teapot-2026-edition");
        for (text, expected) in [
            ("/orders?key=jwWBWaJqHWp9YQ6_x-QRstuv&payment=done", "/orders?key=ID&payment=done"),
            ("invoices/2026/A-10043-jwWBWaJq.html", "invoices/2026/A-10043-ID.html"),
            ("invoices/A-10043-blf9g9gx.html", "invoices/A-10043-ID.html"),
            ("%3Fkey%3Dblf9g9gxv14-k2m8q0r7%26x%3D1", "%3Fkey%3DID%26x%3D1"),
            (
                "longest-word-of-all-2 and harbour-teapot-2026-edition",
                "longest-word-of-all-2 and harbour-teapot-2026-edition",
            ),
            ("jwW is too short", "jwW is too short"),
            ("invoices/A-10043-Gg5BJp-o.html", "invoices/A-10043-ID.html"),
            ("invoices/A-10043-Ab-9xYz1.html", "invoices/A-10043-ID.html"),
            ("invoices/A-10043-q_R7sT8u9.html", "invoices/A-10043-ID.html"),
            ("100%", "100%"),
            ("5%2", "5%2"),
        ] {
            assert_eq!(normal.text(text), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in ".*") {
            let mut normal = Normal::new("a", "b");
            normal.learn(&text);
            let once = normal.text(&text);
            proptest::prop_assert_eq!(normal.text(&once).is_empty(), text.is_empty());
        }
    }
}
