//! Syntax highlighting: strings, comments and keywords, line by line. A heuristic that is good enough for reading.

/// The kind of a piece of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Plain,
    Text,
    Comment,
    Word,
}

impl Piece {
    /// Returns its CSS class.
    pub fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Text => Some("string"),
            Self::Comment => Some("comment"),
            Self::Word => Some("word"),
        }
    }
}

/// Returns how comments of a file's language begin; `None` if it is not code.
pub fn comment_of(path: &str) -> Option<&'static str> {
    let extension = path.rsplit('.').next().unwrap_or_default();
    match extension {
        "rs" | "js" | "mjs" | "cjs" | "ts" | "tsx" | "jsx" | "go" | "java" | "kt" | "c" | "h"
        | "cc" | "cpp" | "cs" | "swift" | "php" | "scala" | "dart" | "css" | "scss" => Some("//"),
        "py" | "rb" | "sh" | "bash" | "toml" | "yaml" | "yml" | "pl" | "ex" | "exs" | "tf" => {
            Some("#")
        }
        "sql" | "lua" | "hs" => Some("--"),
        _ => None,
    }
}

const WORDS: [&str; 62] = [
    "abstract",
    "and",
    "as",
    "async",
    "await",
    "begin",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "create",
    "def",
    "delete",
    "do",
    "else",
    "elif",
    "end",
    "enum",
    "except",
    "export",
    "extends",
    "false",
    "finally",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "in",
    "insert",
    "interface",
    "let",
    "match",
    "mod",
    "new",
    "nil",
    "None",
    "null",
    "or",
    "package",
    "private",
    "pub",
    "public",
    "return",
    "select",
    "self",
    "static",
    "struct",
    "this",
    "throw",
    "true",
    "True",
    "try",
    "type",
    "use",
    "var",
    "while",
];

/// Splits a line into pieces, which together are the whole line.
pub fn pieces<'a>(line: &'a str, comment: &str) -> Vec<(Piece, &'a str)> {
    let mut found: Vec<(Piece, &str)> = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (piece, length) = next(rest, first, comment);
        let (taken, after) = rest.split_at(length);
        rest = after;
        match found.last_mut() {
            Some((Piece::Plain, last)) if piece == Piece::Plain => {
                let begin = line.len() - rest.len() - taken.len() - last.len();
                *last = &line[begin..line.len() - rest.len()];
            }
            _ => found.push((piece, taken)),
        }
    }
    found
}

/// Returns the kind and length of the first piece of a text.
fn next(rest: &str, first: char, comment: &str) -> (Piece, usize) {
    if rest.starts_with(comment) {
        return (Piece::Comment, rest.len());
    }
    if matches!(first, '"' | '\'' | '`') {
        return match closing(rest, first) {
            Some(end) => (Piece::Text, end),
            None => (Piece::Plain, 1),
        };
    }
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    if !is_of_word(first) {
        return (Piece::Plain, first.len_utf8());
    }
    let end = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
    let piece = if WORDS.contains(&&rest[..end]) { Piece::Word } else { Piece::Plain };
    (piece, end)
}

/// Returns the end of a string that begins with a quote.
fn closing(rest: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            letter if letter == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_and_nothing_is_lost() {
        let line = "let näme = \"a \\\" <b>\" + x; // it's <i>";
        let found = pieces(line, "//");
        assert_eq!(found.iter().map(|(_, text)| *text).collect::<String>(), line);
        assert_eq!(found[0], (Piece::Word, "let"));
        assert_eq!(found[1], (Piece::Plain, " näme = "));
        assert_eq!(found[2], (Piece::Text, "\"a \\\" <b>\""));
        assert_eq!(found.last(), Some(&(Piece::Comment, "// it's <i>")));
        assert_eq!(pieces("don't", "#"), [(Piece::Plain, "don't")]);
        assert_eq!(pieces("", "#"), []);
        assert_eq!(comment_of("a/b.rs"), Some("//"));
        assert_eq!(comment_of("README"), None);
    }
}
