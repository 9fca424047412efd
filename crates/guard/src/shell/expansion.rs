//! `${…}`: the value of a variable, and operators on it.

use tree_sitter::Node;

use super::{
    Word, children,
    text::{self, UNKNOWN},
    text_of,
};
use crate::judge::Judge;

/// The maximum length of a value that is matched with a pattern.
const VALUE_LIMIT: usize = 256;

impl Judge<'_> {
    /// Expands `${…}`; unknown parts stay unknown.
    pub(super) fn expansion(&mut self, node: Node<'_>, source: &str) -> String {
        let inside = text_of(node, source);
        let inside =
            inside.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        let end =
            inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inside.len());
        let (name, rest) = inside.split_at(end);
        self.look_inside(node, source);
        if name.is_empty() {
            return UNKNOWN.to_string();
        }
        if let Some(index) = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return self.element(name, index);
        }
        let value = self.variable(name);
        if rest.is_empty() {
            return value;
        }
        let default = ["-", ":-", ":="].iter().any(|sign| rest.starts_with(sign));
        let operand = children(node).into_iter().skip(1).last();
        match (default, operand) {
            // An unset variable expands to its default.
            (true, Some(operand)) if value.contains(UNKNOWN) => self.marked(operand, source),
            (true, _) if !value.contains(UNKNOWN) => value,
            _ if value.contains(UNKNOWN) => UNKNOWN.to_string(),
            _ => edited(&text::plain(&value), rest).unwrap_or_else(|| UNKNOWN.to_string()),
        }
    }

    /// Expands `${name[index]}`.
    fn element(&mut self, name: &str, index: &str) -> String {
        let unknown = UNKNOWN.to_string();
        let Some(all) = self.state.arrays.get(name) else { return unknown };
        match index {
            "@" | "*" => all.iter().map(Word::marked).collect::<Vec<_>>().join(" "),
            index => {
                let one = index.parse::<usize>().ok().and_then(|at| all.get(at));
                one.map_or(unknown, Word::marked)
            }
        }
    }

    /// Expands `"$@"` and `"${name[@]}"` to one word per value.
    pub(super) fn spread(&self, own: &str) -> Option<Vec<Word>> {
        let inside = own.strip_prefix('"')?.strip_suffix('"')?;
        if matches!(inside, "$@" | "${@}") {
            let given = &self.state.arguments;
            return (!given.is_empty()).then(|| given.clone());
        }
        let name = inside.strip_prefix("${")?.strip_suffix("[@]}")?;
        self.state.arrays.get(name).cloned()
    }
}

/// Applies an operator to a value; `None` for unknown operators.
fn edited(value: &str, rest: &str) -> Option<String> {
    // Expansions, quotes and alternatives in a pattern are not supported.
    if value.len().max(rest.len()) > VALUE_LIMIT
        || rest.contains(['$', '`', '"', '\'', '\\', '[', '('])
    {
        return None;
    }
    let ends = |own: &str| {
        value
            .char_indices()
            .map(|(at, _)| at)
            .chain([value.len()])
            .filter(|at| matches(own, &value[*at..]))
            .collect::<Vec<_>>()
    };
    let begins = |own: &str| {
        value
            .char_indices()
            .map(|(at, _)| at)
            .chain([value.len()])
            .filter(|at| matches(own, &value[..*at]))
            .collect::<Vec<_>>()
    };
    let cut = match rest {
        _ if rest.starts_with("%%") => {
            &value[..ends(&rest[2..]).first().copied().unwrap_or(value.len())]
        }
        _ if rest.starts_with('%') => {
            &value[..ends(&rest[1..]).last().copied().unwrap_or(value.len())]
        }
        _ if rest.starts_with("##") => &value[begins(&rest[2..]).last().copied().unwrap_or(0)..],
        _ if rest.starts_with('#') => &value[begins(&rest[1..]).first().copied().unwrap_or(0)..],
        ",," => return Some(value.to_lowercase()),
        "^^" => return Some(value.to_uppercase()),
        _ if rest.starts_with('/') => {
            let all = rest.starts_with("//");
            let (from, to) = rest
                .trim_start_matches('/')
                .split_once('/')
                .unwrap_or((rest.trim_start_matches('/'), ""));
            if from.is_empty() || from.contains(['*', '?', '#', '%']) {
                return None;
            }
            return Some(if all { value.replace(from, to) } else { value.replacen(from, to, 1) });
        }
        _ if rest.starts_with(':') => {
            let (from, length) = rest[1..].split_once(':').unwrap_or((&rest[1..], ""));
            let from: usize = from.trim().parse().ok()?;
            let length = if length.is_empty() { usize::MAX } else { length.trim().parse().ok()? };
            return Some(value.chars().skip(from).take(length).collect());
        }
        _ => return None,
    };
    Some(cut.to_owned())
}

/// Whether a text matches a pattern with `*` and `?`.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut own, mut back) = (0, 0, None);
    while at < text.len() {
        match pattern.get(own) {
            Some('*') => {
                back = Some((own, at));
                own += 1;
            }
            Some(c) if *c == '?' || *c == text[at] => {
                own += 1;
                at += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    own = star + 1;
                    at = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[own..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_take_off_what_bash_takes_off() {
        for (value, rest, want) in [
            ("src/a.js", "%.js", Some("src/a")),
            ("src/a.js", "##*/", Some("a.js")),
            ("src/a.js", "%/*", Some("src")),
            ("a/b/c", "%%/*", Some("a")),
            ("a/b/c", "#*/", Some("b/c")),
            ("a.b", "%.x", Some("a.b")),
            ("/usr/x", "/usr/etc", Some("/etc/x")),
            ("aXbX", "//X/-", Some("a-b-")),
            ("/ETC", ",,", Some("/etc")),
            ("/etc", ":0:1", Some("/")),
            ("a", "%$x", None),
            ("a", "@Q", None),
        ] {
            assert_eq!(edited(value, rest).as_deref(), want, "${{x{rest}}} of {value}");
        }
    }
}
