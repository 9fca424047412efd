//! Small text parsers: paths, JSON with comments, bounded YAML, words of commands.

use serde_json::Value;

/// Returns the last part of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the folder of a path; `""` is the root.
pub(crate) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Joins a folder and a relative path, and resolves `.` and `..` without leaving the root.
pub(crate) fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns a path relative to a folder, both given from the root: `src/a.toml` is `a.toml` for `src`.
pub(crate) fn seen_from(folder: &str, path: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (parts(folder), parts(path));
    let same = from.iter().zip(&to).take_while(|(left, right)| left == right).count();
    let up = std::iter::repeat_n("..", from.len() - same);
    let all: Vec<&str> = up.chain(to[same..].iter().copied()).collect();
    if all.is_empty() { ".".to_owned() } else { all.join("/") }
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// Whether a path leads out of the folder that it is relative to.
pub(crate) fn leaves(folder: &str, path: &str) -> bool {
    let mut depth = folder.split('/').filter(|part| !part.is_empty()).count() as isize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return true;
        }
    }
    path.starts_with('/')
}

/// Returns the number of the first line that contains a text, or 0.
pub(crate) fn line_of(text: &str, needle: &str) -> usize {
    text.lines().position(|line| line.contains(needle)).map_or(0, |at| at + 1)
}

/// Parses JSON with comments and trailing commas.
pub(crate) fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&without_comments(text)))
        .map_err(|error| error.to_string())
}

fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let start = at;
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += 1 + usize::from(bytes[at] == b'\\');
                }
                at = (at + 1).min(bytes.len());
                out.extend(&bytes[start..at]);
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at +=
                    bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - at);
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let end = bytes[at + 2..].windows(2).position(|two| two == b"*/");
                at = end.map_or(bytes.len(), |end| at + end + 4);
            }
            b',' => {
                let after = next_token(&bytes[at + 1..]);
                if !matches!(after, Some(b'}' | b']')) {
                    out.push(b',');
                }
                at += 1;
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the next byte that is neither white space nor a comment.
fn next_token(bytes: &[u8]) -> Option<u8> {
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (byte, _) if byte.is_ascii_whitespace() => at += 1,
            (b'/', Some(b'/')) => at += bytes[at..].iter().position(|byte| *byte == b'\n')?,
            (b'/', Some(b'*')) => {
                at += bytes[at + 2..].windows(2).position(|two| two == b"*/")? + 4
            }
            (byte, _) => return Some(byte),
        }
    }
    None
}

/// Parses YAML: one document, with anchors and merge keys resolved, within the parser's limits on depth and aliases.
pub(crate) fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str::<Value>(text).map_err(|error| error.to_string())
}

/// Splits a command into words, respecting quotes like a shell.
pub(crate) fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_open) = (Vec::new(), String::new(), None, false);
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (None, '\'' | '"') => (quote, is_open) = (Some(c), true),
            (Some(q), c) if q == c => quote = None,
            (None | Some('"'), '\\') => {
                word.extend(rest.next());
                is_open = true;
            }
            (None, c) if c.is_whitespace() => {
                if is_open {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            (_, c) => {
                word.push(c);
                is_open = true;
            }
        }
    }
    if is_open {
        words.push(word);
    }
    words
}

/// Converts any text to a service name: lower case letters, digits and `-`, at most 40.
pub(crate) fn service_name(text: &str) -> String {
    let base = text.rsplit('/').next().unwrap_or(text).to_ascii_lowercase();
    let mapped: String =
        base.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let parts: Vec<&str> = mapped.split('-').filter(|part| !part.is_empty()).collect();
    let short: String = parts.join("-").chars().take(40).collect();
    match short.trim_matches('-') {
        "" => "app".to_owned(),
        name => name.to_owned(),
    }
}

/// Quotes a text as one word for a shell, if necessary.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,+%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Returns the leading number of a version, such as `16` for `16.4-alpine`.
pub(crate) fn major(version: &str) -> Option<String> {
    let bare = version.trim().trim_start_matches(['v', '=', '^', '~', '>', '<', ' ']);
    let digits: String = bare.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty() && digits.len() < 6).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_folders() {
        for (folder, path, expected) in [
            ("", "src/a.toml", "src/a.toml"),
            ("src", "src/a.toml", "a.toml"),
            ("src/app", "src/a.toml", "../a.toml"),
            ("web", "src/a.toml", "../src/a.toml"),
            ("src", "src", "."),
        ] {
            assert_eq!(seen_from(folder, path), expected, "{folder} {path}");
        }
    }

    #[test]
    fn json_with_comments_is_read() {
        let text = "{ // first\n \"a\": \"x // no, /* no */\", /* second */ \"b\": [1, 2,], \n}";
        let value = json(text).unwrap();
        assert_eq!(value["a"], "x // no, /* no */");
        assert_eq!(value["b"].as_array().unwrap().len(), 2);
        assert!(json("{ \"a\": \"\\").is_err() && json("/*").is_err() && json("").is_err());
    }

    #[test]
    fn yaml_has_anchors_and_merge_keys() {
        let value =
            yaml("x: &base\n  image: redis:7\n  env: {A: 1}\na:\n  <<: *base\n  image: redis:6\nb: *base\n").unwrap();
        assert_eq!(value["a"]["image"], "redis:6");
        assert_eq!(value["a"]["env"]["A"], 1);
        assert_eq!(value["b"]["image"], "redis:7");
        let bomb = (1..12).fold("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, at| {
            let part = format!("*a{},", at - 1).repeat(10);
            format!("{text}a{at}: &a{at} [{part}]\n")
        });
        assert!(yaml(&bomb).is_err());
    }

    #[test]
    fn paths_stay_below_the_root() {
        assert_eq!(join("apps/web", "../api/./x"), "apps/api/x");
        assert_eq!(join("", "../../etc"), "etc");
        assert!(leaves("", "../x") && leaves("a", "/etc") && !leaves("a", "../b"));
    }

    #[test]
    fn names_and_words() {
        assert_eq!(service_name("@acme/Web_App"), "web-app");
        assert_eq!(service_name("---"), "app");
        assert_eq!(words("a 'b c' \"d\\\"e\" f\\ g ''"), ["a", "b c", "d\"e", "f g", ""]);
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(major("^16.4-alpine").as_deref(), Some("16"));
        assert_eq!(major("latest"), None);
    }
}
