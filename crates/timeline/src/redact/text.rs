//! Scans a text once for known shapes, schemes with credentials, pairs of names and values, passwords in URLs and
//! private keys.

use super::{Care, REDACTED, is_sensitive, keys};

const KEY_BEGINS: &str = "-----BEGIN ";
const KEY_ENDS: &str = "-----END ";

/// What may begin at a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    Nothing,
    Word,
    /// A private key.
    Key,
    /// The authority of a URL.
    Authority,
}

/// Indexed by byte. Most of a text needs only this table.
static BEGINS: [Begins; 256] = {
    let mut table = [Begins::Nothing; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'-' => Begins::Key,
            b':' => Begins::Authority,
            _ if byte.is_ascii_alphanumeric() || byte == b'_' => Begins::Word,
            _ => Begins::Nothing,
        };
        byte += 1;
    }
    table
};

/// Returns the text without credentials; `None` if it has none.
pub(super) fn redact(text: &str, care: Care) -> Option<String> {
    let mut pass = Pass { text, care, kept: 0, out: String::new() };
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at = match BEGINS[usize::from(*byte)] {
            Begins::Nothing => at + 1,
            Begins::Word if at > 0 && is_of_word(bytes[at - 1]) => at + 1,
            Begins::Word => pass.word(at),
            Begins::Key if bytes[at..].starts_with(KEY_BEGINS.as_bytes()) => pass.private_key(at),
            Begins::Authority if bytes[at..].starts_with(b"://") => pass.authority(at + 3),
            Begins::Key | Begins::Authority => at + 1,
        };
    }
    pass.end()
}

struct Pass<'a> {
    text: &'a str,
    care: Care,
    /// The position up to which the text was copied to `out`.
    kept: usize,
    out: String,
}

/// Replaces a JSON value that is not a string.
const QUOTED: &str = "\"[redacted]\"";

impl Pass<'_> {
    /// Replaces a range; returns where to continue.
    fn replace(&mut self, from: usize, to: usize) -> usize {
        self.replace_by(from, to, REDACTED)
    }

    fn replace_by(&mut self, from: usize, to: usize, by: &str) -> usize {
        if &self.text[from..to] != by {
            self.out.push_str(&self.text[self.kept..from]);
            self.out.push_str(by);
            self.kept = to;
        }
        to
    }

    /// Returns whether a name that ends here is a JSON key.
    fn ends_json_key(&self, at: usize) -> bool {
        self.text[at..]
            .strip_prefix('"')
            .is_some_and(|rest| rest.trim_start_matches(' ').starts_with(':'))
    }

    fn end(mut self) -> Option<String> {
        if self.kept == 0 && self.out.is_empty() {
            return None;
        }
        self.out.push_str(&self.text[self.kept..]);
        Some(self.out)
    }

    /// Handles a word: a credential, a scheme before one, or the name of one.
    fn word(&mut self, at: usize) -> usize {
        let bytes = &self.text.as_bytes()[at..];
        if keys::may_begin(bytes)
            && let Some(length) = self.credential(at)
        {
            return self.replace(at, at + length);
        }
        // Parts after a dash may be credentials too.
        let part = bytes.iter().position(|c| !is_of_word(*c)).unwrap_or(bytes.len());
        if self.care == Care::Keys {
            return at + part;
        }
        let dashed = |c: &u8| !is_of_word(*c) && *c != b'-';
        let length = match bytes.get(part) {
            Some(b'-') => bytes.iter().position(dashed).unwrap_or(bytes.len()),
            _ => part,
        };
        let word = &self.text[at..at + length];
        if word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic") {
            return self.after_scheme(at + length);
        }
        // Few words are followed by a sign, so that is checked before the name.
        if let Some(sign) = self.sign(at + length)
            && is_sensitive(word)
            && let Some((from, to)) = self.value(at + length, sign, word)
        {
            // A number in JSON becomes a string, so that the result is still JSON.
            let is_bare = self.ends_json_key(at + length)
                && self.text.as_bytes()[from - 1] != b'"'
                && self.text[from..to].parse::<f64>().is_ok();
            return if is_bare {
                self.replace_by(from, to, QUOTED)
            } else {
                self.replace(from, to)
            };
        }
        at + part
    }

    /// Returns the length of the credential that begins here, if any.
    fn credential(&self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        keys::length(rest).or_else(|| keys::jwt(rest).filter(|_| self.care == Care::Full))
    }

    /// Redacts the token after a scheme, if it looks like one.
    fn after_scheme(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let spaces = rest.bytes().take_while(|c| *c == b' ').count();
        let token = rest[spaces..].bytes().take_while(|c| keys::is_of_token(*c)).count();
        // "basic authentication" and "bearer token" are ordinary words.
        let is_word = rest[spaces..spaces + token].bytes().all(|c| c.is_ascii_lowercase());
        match spaces > 0 && token >= 4 && !is_word {
            true => self.replace(at + spaces, at + spaces + token),
            false => at,
        }
    }

    /// Returns the position of the sign between a name that ends here and its value, if any.
    fn sign(&self, at: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let quotes = skip(bytes, at, b"\\\"'");
        let sign = skip(bytes, quotes, b" ");
        let is_sign = matches!(bytes.get(sign), Some(b':' | b'='));
        (is_sign && !bytes[sign..].starts_with(b"://")).then_some(sign)
    }

    /// Finds the value after the name of a credential: `name=value`, `"name": "value"`, possibly
    /// escaped.
    fn value(&self, at: usize, sign: usize, name: &str) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        let begin = skip(bytes, sign + 1, b" \\\"'");
        let quoted =
            bytes.get(begin.wrapping_sub(1)).copied().filter(|c| matches!(c, b'"' | b'\''));
        // Headers extend to the end of the line: cookies and credentials contain spaces.
        let whole_line = name.to_ascii_lowercase().ends_with("cookie")
            || name.to_ascii_lowercase().ends_with("authorization");
        let ends = |c: &u8| match quoted {
            Some(quote) => *c == quote || *c == b'\\' || *c == b'\n',
            None if whole_line && !self.ends_json_key(at) => matches!(c, b'\r' | b'\n'),
            None => c.is_ascii_whitespace() || b"&,;\"'}])>".contains(c),
        };
        let length = bytes[begin..].iter().position(ends).unwrap_or(bytes.len() - begin);
        let value = &self.text[begin..begin + length];
        let is_shown = value.starts_with(REDACTED) || value.starts_with("[secret ");
        let empty = matches!(value, "" | "null" | "true" | "false" | "{" | "[" | "undefined");
        let partly = REDACTED.starts_with(value) && value.len() > 1;
        (!is_shown && !empty && !partly).then_some((begin, begin + length))
    }

    /// Redacts the password of `scheme://user:password@host`.
    fn authority(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let end = rest.find(['/', '?', '#', ' ', '"', '\'', '<', '\n', '\\']).unwrap_or(rest.len());
        let Some((user, _)) = rest[..end].rsplit_once('@') else { return at };
        match user.split_once(':') {
            Some((name, password)) if !password.is_empty() => {
                self.replace(at + name.len() + 1, at + user.len())
            }
            _ => at,
        }
    }

    fn private_key(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let line = rest.find(['\n', '\\']).unwrap_or(rest.len());
        if !rest[..line].contains("PRIVATE KEY") {
            return at + KEY_BEGINS.len();
        }
        let end = rest.find(KEY_ENDS).map_or(rest.len(), |end| {
            let after = end + KEY_ENDS.len();
            rest[after..].find("-----").map_or(rest.len(), |more| after + more + 5)
        });
        self.replace(at, at + end)
    }
}

fn is_of_word(c: u8) -> bool {
    BEGINS[usize::from(c)] == Begins::Word
}

/// Returns the position of the first byte that is not in `set`.
fn skip(bytes: &[u8], mut at: usize, set: &[u8]) -> usize {
    while bytes.get(at).is_some_and(|c| set.contains(c)) {
        at += 1;
    }
    at
}
