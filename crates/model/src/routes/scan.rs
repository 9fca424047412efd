//! Scans source code without parsing it: lines, brackets, names.

use std::{cell::RefCell, collections::HashMap};

use regex_lite::Regex;

/// Returns the line of a byte offset, from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Whether a line, from 1, is a comment in any of the languages.
pub(super) fn is_comment(text: &str, line: usize) -> bool {
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim_start();
    line.starts_with("//")
        || line.starts_with("* ")
        // `#[get("/")]` is an attribute.
        || line.strip_prefix('#').is_some_and(|rest| !rest.starts_with('['))
}

/// Returns the end of what a bracket at `open` encloses: the position of the closing bracket, or the end of the text.
/// Brackets in strings are skipped.
pub(super) fn closing(text: &str, open: usize) -> usize {
    let (bytes, mut depth, mut quote) = (text.as_bytes(), 0_usize, None);
    let mut at = open;
    while at < bytes.len() {
        let byte = bytes[at];
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(open), _) if byte == open => quote = None,
            (Some(b'"' | b'\''), b'\n') => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'' | b'`') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            (None, _) => {}
        }
        at += 1;
    }
    bytes.len()
}

thread_local! {
    /// Compiled patterns, because each is used for every file.
    static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// Compiles one of our patterns, once.
pub(super) fn pattern(text: &str) -> Regex {
    COMPILED.with_borrow_mut(|known| match known.get(text) {
        Some(compiled) => compiled.clone(),
        None => {
            let compiled = Regex::new(text).expect("patterns of routes are valid");
            known.insert(text.to_owned(), compiled.clone());
            compiled
        }
    })
}

/// Returns the character before a position, skipping spaces.
pub(super) fn before(text: &str, at: usize) -> Option<char> {
    text[..at].chars().rev().find(|c| !matches!(c, ' ' | '\t'))
}

/// Returns the folder of a path.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Resolves a path relative to a folder, including `.` and `..`.
pub(super) fn resolve(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
