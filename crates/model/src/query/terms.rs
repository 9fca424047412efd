//! Splits the text of a query into terms.

use std::fmt;

use super::QueryError;

/// A word of a query. Each character knows whether it was quoted, which makes it literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word(Vec<(char, bool)>);

impl Word {
    /// Splits off a leading minus.
    pub(super) fn sign(&self) -> (bool, Self) {
        match self.0.split_first() {
            Some((('-', false), rest)) if !rest.is_empty() => (true, Self(rest.to_vec())),
            _ => (false, self.clone()),
        }
    }

    /// Returns field, operator and text, if there is an operator after a possible field name.
    pub(super) fn condition(&self) -> Option<(String, char, String)> {
        let is_operator = |(c, quoted): &(char, bool)| !quoted && matches!(c, ':' | '=' | '~');
        let at = self.0.iter().position(is_operator)?;
        let named = |(c, quoted): &(char, bool)| {
            *quoted || c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '$')
        };
        let (name, rest) = self.0.split_at(at);
        let begins = name.first().is_some_and(|(c, quoted)| !quoted && *c != '.');
        (begins && name.iter().all(named)).then(|| (text(name), rest[0].0, text(&rest[1..])))
    }

    /// Returns the text without quotes.
    pub(super) fn text(&self) -> String {
        text(&self.0)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("\"\"");
        }
        let mut open = false;
        for (c, quoted) in &self.0 {
            if *quoted != open {
                f.write_str("\"")?;
                open = *quoted;
            }
            match (c, quoted) {
                ('"' | '\\', true) => write!(f, "\\{c}")?,
                _ => write!(f, "{c}")?,
            }
        }
        f.write_str(if open { "\"" } else { "" })
    }
}

fn text(characters: &[(char, bool)]) -> String {
    characters.iter().map(|(c, _)| c).collect()
}

/// Splits a query at unquoted spaces.
///
/// A double quote begins a quotation anywhere, a single one only at the beginning of a word or text, so that `don't`
/// needs no escaping.
pub(super) fn split(text: &str) -> Result<Vec<Word>, QueryError> {
    let (mut words, mut word) = (Vec::new(), Vec::new());
    let mut rest = text.chars();
    let mut is_word = false;
    while let Some(c) = rest.next() {
        let begins = word.last().is_none_or(|(last, quoted)| {
            !quoted && (matches!(last, ':' | '=' | '~') || *last == '-' && word.len() == 1)
        });
        if c == '"' || c == '\'' && begins {
            quoted(c, &mut rest, &mut word)?;
            is_word = true;
        } else if !c.is_whitespace() {
            word.push((c, false));
            is_word = true;
        } else if std::mem::take(&mut is_word) {
            words.push(Word(std::mem::take(&mut word)));
        }
    }
    if is_word {
        words.push(Word(word));
    }
    Ok(words)
}

fn quoted(
    quote: char,
    rest: &mut std::str::Chars<'_>,
    word: &mut Vec<(char, bool)>,
) -> Result<(), QueryError> {
    while let Some(c) = rest.next() {
        match c {
            _ if c == quote => return Ok(()),
            '\\' if quote == '"' => match rest.next() {
                Some(next @ ('"' | '\\')) => word.push((next, true)),
                // A backslash that belongs to a regular expression.
                Some(next) => word.extend([('\\', true), (next, true)]),
                None => return Err(QueryError::Quote),
            },
            _ => word.push((c, true)),
        }
    }
    Err(QueryError::Quote)
}

/// Returns whether a value contains a lower-case text, ignoring the value's case.
pub(super) fn contains(value: &str, lower: &str) -> bool {
    if !lower.is_ascii() {
        return value.to_lowercase().contains(lower);
    }
    let (value, lower) = (value.as_bytes(), lower.as_bytes());
    let Some(first) = lower.first() else { return true };
    let last = value.len().saturating_sub(lower.len() - 1);
    (0..last).any(|at| {
        value[at].to_ascii_lowercase() == *first
            && value[at..at + lower.len()].eq_ignore_ascii_case(lower)
    })
}
