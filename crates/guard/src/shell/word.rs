//! Words: the result of expanding an argument.

use tree_sitter::Node;

use super::{
    Flow, children,
    text::{self, UNKNOWN},
    text_of,
};
use crate::judge::Judge;

/// An argument, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Its text; unknown parts are `…`.
    pub(crate) text: String,
    /// The start of the first unknown part.
    unknown: Option<usize>,
}

impl Word {
    pub(crate) fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), unknown: None }
    }

    pub(crate) fn unknown() -> Self {
        Self { text: "…".to_owned(), unknown: Some(0) }
    }

    fn of(marked: &str) -> Self {
        let shown = text::plain(marked);
        let unknown = shown.find(UNKNOWN);
        Self { text: shown.replace(UNKNOWN, "…"), unknown }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.unknown.is_none()
    }

    /// Returns the known beginning.
    pub(crate) fn known(&self) -> &str {
        &self.text[..self.unknown.unwrap_or(self.text.len())]
    }

    /// Returns the known folders at the beginning.
    pub(crate) fn known_folder(&self) -> &str {
        let known = self.known();
        known.rfind('/').map_or("", |at| &known[..=at])
    }

    /// Returns the rest after a prefix, as a word.
    pub(crate) fn after(&self, prefix: &str) -> Option<Self> {
        let text = self.text.strip_prefix(prefix)?;
        if self.known().len() < prefix.len() {
            return None;
        }
        let unknown = self.unknown.map(|at| at - prefix.len());
        Some(Self { text: text.to_owned(), unknown })
    }

    pub(crate) fn is_option(&self) -> bool {
        self.text.len() > 1 && self.text.starts_with('-')
    }

    /// Returns a text with marks, for insertion into another word.
    pub(super) fn marked(&self) -> String {
        match self.unknown {
            None => text::quoted(&self.text),
            Some(_) => text::quoted(&self.text.replace('…', &UNKNOWN.to_string())),
        }
    }
}

impl Judge<'_> {
    /// Expands an argument to any number of words.
    pub(super) fn words(&mut self, node: Node<'_>, source: &str) -> Vec<Word> {
        if let Some(all) = self.spread(text_of(node, source)) {
            return all;
        }
        let marked = self.marked(node, source);
        let marked = tilde(&marked, &self.scene.home.to_string_lossy());
        let fields: Vec<&str> = match node.kind() {
            "string" | "raw_string" | "ansi_c_string" | "translated_string" => vec![&marked],
            // Remaining white space comes from expansions.
            _ => marked.split([' ', '\t', '\n']).filter(|field| !field.is_empty()).collect(),
        };
        let mut words = Vec::new();
        for field in fields {
            match text::braces(field) {
                Some(all) => words.extend(all.iter().map(|one| Word::of(one))),
                None => words.push(Word::unknown()),
            }
        }
        words
    }

    /// Expands an argument to a single word, where only one is allowed.
    pub(super) fn word(&mut self, node: Node<'_>, source: &str) -> Word {
        let marked = self.marked(node, source);
        Word::of(&tilde(&marked, &self.scene.home.to_string_lossy()))
    }

    /// Expands a word to a text with marks.
    pub(super) fn marked(&mut self, node: Node<'_>, source: &str) -> String {
        let own = text_of(node, source);
        if own.contains(|c| ('\u{E000}'..='\u{F8FF}').contains(&c)) {
            return UNKNOWN.to_string();
        }
        match node.kind() {
            "word"
            | "number"
            | "variable_name"
            | "special_variable_name"
            | "extglob_pattern"
            | "test_operator"
            | "file_descriptor" => text::unescaped(own),
            "raw_string" => text::quoted(own.trim_matches('\'')),
            "ansi_c_string" => {
                let inner = own.strip_prefix("$'").unwrap_or(own);
                text::quoted(&text::ansi(inner.strip_suffix('\'').unwrap_or(inner)))
            }
            "string" => self.parts_quoted(node, source, 1),
            "translated_string" => {
                children(node).first().map_or(String::new(), |inner| self.marked(*inner, source))
            }
            "heredoc_body" => self.parts_quoted(node, source, 0),
            "concatenation" | "command_name" => {
                let parts = children(node);
                parts.iter().map(|part| self.marked(*part, source)).collect()
            }
            "simple_expansion" => self.variable(&own[1..]),
            "expansion" => self.expansion(node, source),
            "command_substitution" => self.substitution(node, source),
            "process_substitution" => {
                self.in_subshell(node, source);
                "/dev/fd/63".to_owned()
            }
            "arithmetic_expansion" => {
                self.look_inside(node, source);
                "0".to_owned()
            }
            "brace_expression" => "0".to_owned(),
            _ => {
                self.look_inside(node, source);
                UNKNOWN.to_string()
            }
        }
    }

    /// Expands a text in double quotes; `edge` is the length of the quotes.
    fn parts_quoted(&mut self, node: Node<'_>, source: &str, edge: usize) -> String {
        let range = node.byte_range();
        let (mut at, end) =
            (range.start + edge, range.end.saturating_sub(edge).max(range.start + edge));
        let mut out = String::new();
        for part in children(node) {
            if matches!(part.kind(), "string_content" | "heredoc_content") {
                continue;
            }
            let inside = part.byte_range();
            out.push_str(&text::in_double_quotes(source.get(at..inside.start).unwrap_or_default()));
            // Quoted expansions are not split into words.
            out.push_str(&text::quoted(&self.marked(part, source)));
            at = inside.end;
        }
        out.push_str(&text::in_double_quotes(source.get(at..end).unwrap_or_default()));
        out
    }

    /// Returns the value of a variable, with marks.
    pub(super) fn variable(&mut self, name: &str) -> String {
        let unknown = UNKNOWN.to_string();
        if name == "0" {
            return self.state.zero.as_ref().map_or(unknown, Word::marked);
        }
        if matches!(name, "?" | "$" | "!" | "#" | "RANDOM" | "SECONDS" | "LINENO") {
            return "0".to_owned();
        }
        if let Ok(number) = name.parse::<usize>() {
            let given = number.checked_sub(1).and_then(|at| self.state.arguments.get(at));
            return given.map_or(unknown, Word::marked);
        }
        if matches!(name, "@" | "*") {
            let given = &self.state.arguments;
            return match given.is_empty() {
                true => unknown,
                false => given.iter().map(Word::marked).collect::<Vec<_>>().join(" "),
            };
        }
        let folder = |all: Option<&Vec<std::path::PathBuf>>| match all.map(Vec::as_slice) {
            Some([one]) => one.to_string_lossy().into_owned(),
            _ => unknown.clone(),
        };
        match (self.state.variables.get(name), name) {
            (Some(Some(value)), _) => value.clone(),
            (Some(None), _) => unknown,
            (None, "PWD") => folder(self.state.folders.as_ref()),
            (None, "OLDPWD") => folder(self.state.previous().as_ref()),
            (None, "HOME") => self.scene.home.to_string_lossy().into_owned(),
            (None, "IFS") => " ".to_owned(),
            (None, "SANDBOX_DIR") => self.scene.root.to_string_lossy().into_owned(),
            (None, name) => (self.scene.variable)(name).unwrap_or(unknown),
        }
    }

    /// Runs the script of `$(…)`, and returns its output if known.
    fn substitution(&mut self, node: Node<'_>, source: &str) -> String {
        match self.in_subshell(node, source) {
            Flow::Known(text) => {
                text.trim_end_matches('\n').replace(|c| ('\u{E000}'..='\u{F8FF}').contains(&c), "?")
            }
            Flow::Names(names) => names.join(" "),
            Flow::Nothing => String::new(),
            Flow::Network(_) | Flow::Unknown => UNKNOWN.to_string(),
        }
    }

    /// Judges the commands in a node that is not a word.
    pub(super) fn look_inside(&mut self, node: Node<'_>, source: &str) {
        if self.state.depth >= super::DEPTH {
            return;
        }
        self.state.depth += 1;
        for child in children(node) {
            match child.kind() {
                "command_substitution" | "process_substitution" => {
                    self.in_subshell(child, source);
                }
                _ => self.look_inside(child, source),
            }
        }
        self.state.depth -= 1;
    }
}

/// Expands a tilde at the beginning of a word.
fn tilde(marked: &str, home: &str) -> String {
    let Some(rest) = marked.strip_prefix('~') else { return marked.to_owned() };
    let (user, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match user {
        "" => format!("{}{path}", text::quoted(home)),
        "+" => format!(".{path}"),
        "root" => format!("/root{path}"),
        user if user.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) => {
            format!("/home/{user}{path}")
        }
        _ => marked.to_owned(),
    }
}
