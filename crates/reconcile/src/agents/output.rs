//! The output of an agent: stored in a file, and parsed for its state.

use std::{io::Write, path::Path};

use hothouse_host::files;
use serde_json::Value;

/// The size at which a log is rotated; one earlier part is kept.
pub(crate) const LOG_LIMIT: u64 = 8 << 20;

/// How much of a line is parsed.
const LINE: usize = 256 << 10;

/// What is known from an agent's output.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    pub(super) cost: Option<f64>,
    pub(super) model: Option<String>,
    /// Whether it hit a rate limit.
    pub(super) limited: bool,
    /// Whether it rang the bell after its last output.
    pub(super) rang: bool,
    /// The last lines, for a digest of how it failed.
    pub(super) last: Vec<String>,
}

/// Parses output as it arrives.
#[derive(Default)]
pub(super) struct Listener {
    line: Vec<u8>,
    /// Inside an escape sequence that a bell terminates.
    in_text: bool,
    escape: bool,
    pub(super) told: Told,
}

impl Listener {
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                0x1b => self.escape = true,
                b']' if self.escape => (self.in_text, self.escape) = (true, false),
                0x07 if self.in_text => self.in_text = false,
                0x07 => self.told.rang = true,
                b'\\' if self.escape && self.in_text => {
                    (self.in_text, self.escape) = (false, false)
                }
                byte => {
                    self.escape = false;
                    // Output after the bell means that it continues.
                    if byte > b' ' && !self.in_text {
                        self.told.rang = false;
                    }
                }
            }
            match byte {
                b'\n' => self.end_line(),
                byte if self.line.len() < LINE => self.line.push(byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = super::visible_text(&line);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if text.starts_with('{')
            && let Ok(value) = serde_json::from_str::<Value>(text)
        {
            self.told.cost = value["total_cost_usd"].as_f64().or(self.told.cost);
            let model = value["model"].as_str().or_else(|| value["message"]["model"].as_str());
            self.told.model =
                model.map(|model| model.chars().take(80).collect()).or(self.told.model.take());
        }
        let lower = text.to_lowercase();
        let limits = [
            "rate limit",
            "rate_limit",
            "overloaded_error",
            "usage limit",
            "too many requests",
            "status 429",
        ];
        self.told.limited |= limits.iter().any(|word| lower.contains(word));
        self.told.last.push(text.chars().take(400).collect());
        if self.told.last.len() > 5 {
            self.told.last.remove(0);
        }
    }
}

/// Appends output to a log.
pub(super) fn append(file: &Path, bytes: &[u8]) {
    let write = || {
        if let Some(folder) = file.parent() {
            files::make_folder(folder).ok()?;
        }
        files::rotate(file, LOG_LIMIT).ok()?;
        files::open_append(file).ok()?.write_all(bytes).ok()
    };
    if write().is_none() {
        tracing::warn!(file = %file.display(), "the output of an agent could not be kept");
    }
}

/// Returns the part of a terminal's replay that is not yet in the log.
pub(super) fn unseen<'a>(log: &[u8], replayed: &'a [u8]) -> &'a [u8] {
    const TAIL: usize = 4096;
    let tail = &log[log.len().saturating_sub(TAIL)..];
    if tail.is_empty() {
        return replayed;
    }
    if replayed.len() < tail.len() {
        return if tail.ends_with(replayed) { &[] } else { replayed };
    }
    let at = replayed.windows(tail.len()).rposition(|part| part == tail);
    at.map_or(replayed, |at| &replayed[at + tail.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_means_that_it_waits_until_it_continues() {
        let mut listener = Listener::default();
        listener.hear(b"done?\x07");
        assert!(listener.told.rang);
        listener.hear(b"\x1b]0;title\x07 \r");
        assert!(listener.told.rang, "a title is neither a bell nor text");
        listener.hear(b"going on");
        assert!(!listener.told.rang);
    }

    #[test]
    fn cost_and_model_are_read_from_lines_of_json() {
        let mut listener = Listener::default();
        listener.hear(b"{\"type\":\"system\",\"model\":\"m-1\"}\r\n{\"total_cost_usd\":0.25}\r\nError: 429 Too Many Requests\n");
        let Told { cost, model, limited, .. } = listener.told;
        assert_eq!((cost, model.as_deref(), limited), (Some(0.25), Some("m-1"), true));
    }

    #[test]
    fn what_is_replayed_is_kept_once() {
        assert_eq!(unseen(b"", b"abc"), b"abc");
        assert_eq!(unseen(b"abc", b"abc"), b"");
        assert_eq!(unseen(b"abc", b"abcdef"), b"def");
        assert_eq!(unseen(b"xxabc", b"bc"), b"");
        assert_eq!(unseen(b"abc", b"xyz"), b"xyz");
    }
}
