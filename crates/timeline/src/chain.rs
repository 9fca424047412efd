//! The encoding of a record, and the hash that chains it to the previous one.
//!
//! A line is compact JSON with the fields of the envelope in their fixed order, the keys of objects
//! in the body sorted bytewise, and a newline. The hash of a record is the SHA-256 of its line
//! without the newline and without the field `hash`, so it covers `prev` and everything else. The
//! first `prev` is the SHA-256 of the run's id.
//!
//! A reader hashes the bytes of the file and never re-encodes JSON to compare: two encoders may
//! differ.

use aws_lc_rs::digest::{Context, SHA256};
use hothouse_model::{
    id::hex,
    record::{Draft, Record},
};
use serde::Serialize;

/// The maximum length of a line, including its newline. A draft that would exceed it is refused.
pub const LINE_LIMIT: usize = 1 << 20;

/// The prefix of every hash.
const PREFIX: &str = "sha256:";

/// The bytes before and after the hash of a line. They cannot occur in a text: quotes are escaped
/// there.
const BEFORE: &[u8] = br#","hash":"sha256:"#;
const AFTER: &[u8] = br#"","body":"#;

/// A SHA-256.
pub(crate) type Hash = [u8; 32];

/// Hashes the concatenation of some parts.
pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Hashes a file, in the format of records.
pub fn digest(bytes: &[u8]) -> String {
    shown(&sha256(&[bytes]))
}

/// Formats a hash as in records.
pub(crate) fn shown(hash: &Hash) -> String {
    format!("{PREFIX}{}", hex(hash))
}

/// Parses a hash as in records.
pub(crate) fn parse_hash(text: &str) -> Option<Hash> {
    let digits = text.strip_prefix(PREFIX)?.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

/// Returns the `prev` of a run's first record.
pub fn genesis(run: &str) -> String {
    shown(&genesis_hash(run))
}

pub(crate) fn genesis_hash(run: &str) -> Hash {
    sha256(&[run.as_bytes()])
}

/// The part of a line that does not depend on its place in the chain.
pub(crate) struct Prepared {
    /// From `"id"` to the summary.
    head: Vec<u8>,
    body: Vec<u8>,
}

#[derive(Serialize)]
struct HeadFields<'a> {
    id: &'a str,
    kind: hothouse_model::record::Kind,
    time: jiff::Timestamp,
    sandbox: &'a str,
    run: &'a str,
    service: Option<&'a str>,
    process: Option<&'a hothouse_model::record::Process>,
    trace: Option<&'a str>,
    summary: &'a str,
}

impl Prepared {
    /// Encodes a draft, whose body has sorted keys.
    pub(crate) fn new(draft: &Draft, id: &str, sandbox: &str, run: &str) -> Self {
        let fields = HeadFields {
            id,
            kind: draft.kind,
            time: draft.time,
            sandbox,
            run,
            service: draft.service.as_deref(),
            process: draft.process.as_ref(),
            trace: draft.trace.as_deref(),
            summary: &draft.summary,
        };
        let head = serde_json::to_vec(&fields).expect("the envelope is plain");
        let body = serde_json::to_vec(&draft.body).expect("a body is JSON");
        Self { head: head[1..head.len() - 1].to_vec(), body }
    }

    /// Returns an upper bound of the line's length.
    pub(crate) fn size(&self) -> usize {
        self.head.len() + self.body.len() + 256
    }

    /// Encodes the line at its position in the chain and returns its hash.
    pub(crate) fn write(&self, seq: u64, prev: &Hash, line: &mut Vec<u8>) -> Hash {
        let before = format!("{{\"seq\":{seq},");
        let link = format!(",\"prev\":\"{}\"", shown(prev));
        let hash = sha256(&[
            before.as_bytes(),
            &self.head,
            link.as_bytes(),
            b",\"body\":",
            &self.body,
            b"}",
        ]);
        line.extend_from_slice(before.as_bytes());
        line.extend_from_slice(&self.head);
        line.extend_from_slice(link.as_bytes());
        line.extend_from_slice(BEFORE);
        line.extend_from_slice(hex(&hash).as_bytes());
        line.extend_from_slice(AFTER);
        line.extend_from_slice(&self.body);
        line.extend_from_slice(b"}\n");
        hash
    }
}

/// The position of a line in the chain, as it states itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) seq: u64,
    pub(crate) prev: Hash,
    pub(crate) hash: Hash,
}

/// Why a line is not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadLine {
    #[error("the line is not a record")]
    Form,
    #[error("the record does not have the hash that it states")]
    Hash,
}

/// Checks a line without its newline: its form and its hash.
pub(crate) fn check(line: &[u8]) -> Result<Link, BadLine> {
    let at = find(line, BEFORE).ok_or(BadLine::Form)?;
    let digits = at + BEFORE.len();
    let rest = line.get(digits + 64..).filter(|rest| rest.starts_with(AFTER));
    let rest = rest.ok_or(BadLine::Form)?;
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| BadLine::Form);
    let stated = parse_hash(text(&line[at + 9..digits + 64])?).ok_or(BadLine::Form)?;
    let head = &line[..at];
    // `rest` begins with the quote that closes the hash.
    if sha256(&[head, &rest[1..]]) != stated {
        return Err(BadLine::Hash);
    }
    let seq = head.strip_prefix(b"{\"seq\":").ok_or(BadLine::Form)?;
    let end = seq.iter().position(|c| !c.is_ascii_digit()).ok_or(BadLine::Form)?;
    let seq = text(&seq[..end])?.parse().map_err(|_| BadLine::Form)?;
    // `"sha256:…"` ends the head.
    let prev = head.len().checked_sub(64 + PREFIX.len() + 1).ok_or(BadLine::Form)?;
    let prev = parse_hash(text(&head[prev..head.len() - 1])?).ok_or(BadLine::Form)?;
    Ok(Link { seq, prev, hash: stated })
}

/// Parses a line without its newline.
pub(crate) fn read(line: &[u8]) -> Result<Record, BadLine> {
    serde_json::from_slice(line).map_err(|_| BadLine::Form)
}

/// Finds a byte sequence in another one.
pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|c| *c == wanted[0]) {
        if bytes[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use hothouse_model::record::Kind;
    use jiff::Timestamp;
    use serde_json::json;

    fn line(summary: &str) -> Vec<u8> {
        let body = json!({ "text": "\",\"hash\":\"sha256:", "hash": "sha256:x", "body": {} });
        let draft = Draft::new(Kind::Log, Timestamp::UNIX_EPOCH, summary, body);
        let mut line = Vec::new();
        Prepared::new(&draft, "log_1", "a", "run_1").write(1, &genesis_hash("run_1"), &mut line);
        line.pop();
        line
    }

    #[test]
    fn a_line_is_what_the_documentation_says() {
        let text = String::from_utf8(line("s")).unwrap();
        let (head, rest) = text.split_once(",\"hash\":\"").unwrap();
        let (hash, body) = rest.split_once("\",").unwrap();
        assert_eq!(hash, shown(&sha256(&[format!("{head},{body}").as_bytes()])));
        assert!(head.ends_with(&format!("\"prev\":\"{}\"", genesis("run_1"))));
        let record = read(text.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), text, "the envelope in its order");
    }

    #[test]
    fn texts_cannot_forge_the_place_of_the_hash() {
        let line = line("\",\"hash\":\"sha256:0000\",\"body\":{}}");
        assert_eq!(check(&line).unwrap().seq, 1);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let line = line("s");
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut changed = line.clone();
                changed[at] ^= 1 << bit;
                assert!(check(&changed).is_err(), "byte {at}");
            }
        }
    }
}
