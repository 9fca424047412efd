//! Statements, in the order in which a shell runs them.

use tree_sitter::Node;

use super::{DEPTH, Flow, Word, children, text_of};
use crate::{
    Link,
    judge::{Change, Judge},
    scene::lexical,
};

/// How many values of a loop are evaluated.
const ROUNDS: usize = 32;

impl Judge<'_> {
    /// Runs the statements below a node; returns the output of the last one.
    pub(super) fn statements(&mut self, node: Node<'_>, source: &str) -> Flow {
        let mut printed = Flow::Nothing;
        for child in children(node) {
            let before = self.state.folders.clone();
            let flow = self.statement(child, source, Flow::Nothing);
            self.doubt_folder(before.as_ref());
            printed = match (printed, flow) {
                (Flow::Known(first), Flow::Known(then)) => Flow::Known(first + &then),
                (first, Flow::Nothing) => first,
                (Flow::Nothing, then) => then,
                (Flow::Network(host), _) | (_, Flow::Network(host)) => Flow::Network(host),
                _ => Flow::Unknown,
            };
        }
        printed
    }

    /// Adds the previous folder if a `cd` may have failed, because its target may not exist.
    fn doubt_folder(&mut self, before: Option<&Vec<std::path::PathBuf>>) {
        let (Some(now), Some(then)) = (&self.state.folders, before) else { return };
        if now == then {
            return;
        }
        let is_there = |path: &std::path::PathBuf| {
            self.state.made.contains(path) || self.look(path) != Link::Missing
        };
        if !now.iter().all(is_there) {
            let mut all = now.clone();
            all.extend(then.iter().filter(|path| !now.contains(path)).cloned());
            self.state.folders = (all.len() <= 8).then_some(all);
        }
    }

    /// Runs one statement.
    pub(super) fn statement(&mut self, node: Node<'_>, source: &str, input: Flow) -> Flow {
        if self.state.depth >= DEPTH {
            self.unknown("", "a script that is nested this deep");
            return Flow::Unknown;
        }
        if !self.may_go_on() {
            return Flow::Unknown;
        }
        self.state.depth += 1;
        let passes_on = matches!(node.kind(), "command" | "redirected_statement" | "pipeline");
        let flow = match passes_on || input == Flow::Nothing {
            true => self.statement_now(node, source, input),
            // Commands in a group read the group's input.
            false => {
                let before = std::mem::replace(&mut self.state.input, input);
                let flow = self.statement_now(node, source, Flow::Nothing);
                self.state.input = before;
                flow
            }
        };
        self.state.depth -= 1;
        flow
    }

    fn statement_now(&mut self, node: Node<'_>, source: &str, input: Flow) -> Flow {
        match node.kind() {
            "command" => self.command(node, source, input),
            "redirected_statement" => self.redirected(node, source, input),
            "pipeline" => self.pipeline(children(node), source, input),
            "list" => self.list(node, source),
            "subshell" | "command_substitution" | "process_substitution" => {
                self.in_subshell(node, source)
            }
            "compound_statement" | "do_group" | "program" | "else_clause" | "elif_clause" => {
                self.statements(node, source)
            }
            "if_statement" | "case_statement" => self.branches(node, source),
            "case_item" => {
                let parts = children(node);
                parts.into_iter().filter(|part| !is_word(part.kind())).for_each(|part| {
                    self.statement(part, source, Flow::Nothing);
                });
                Flow::Unknown
            }
            "while_statement" | "c_style_for_statement" => {
                // Twice: the second round may use what the first one has changed.
                self.statements(node, source);
                self.branches(node, source);
                Flow::Unknown
            }
            "for_statement" => self.for_loop(node, source),
            "function_definition" => {
                self.define(node, source);
                Flow::Nothing
            }
            "negated_command" => self.statements(node, source),
            "variable_assignment" | "variable_assignments" => {
                self.assign(node, source);
                Flow::Nothing
            }
            "declaration_command" => {
                children(node).into_iter().for_each(|part| self.assign(part, source));
                Flow::Nothing
            }
            // `$(< file)`, and a redirection without a command.
            "file_redirect" => {
                self.file_redirect(node, source);
                Flow::Unknown
            }
            "comment" | "variable_name" | "heredoc_start" | "heredoc_end" => Flow::Nothing,
            "unset_command" => {
                for name in children(node) {
                    self.state
                        .variables
                        .insert(text_of(name, source).to_owned(), Some(String::new()));
                }
                Flow::Nothing
            }
            "ERROR" => {
                self.statements(node, source);
                Flow::Unknown
            }
            _ => {
                self.look_inside(node, source);
                Flow::Nothing
            }
        }
    }

    /// Runs a node whose changes of folder and variables end with it.
    pub(super) fn in_subshell(&mut self, node: Node<'_>, source: &str) -> Flow {
        if self.state.depth >= DEPTH {
            self.unknown("", "a script that is nested this deep");
            return Flow::Unknown;
        }
        self.child(|judge| {
            judge.state.depth += 1;
            judge.statements(node, source)
        })
    }

    /// Runs something as a child process: its effects on files and its command count remain, its folder and variables
    /// do not.
    pub(crate) fn child(&mut self, run: impl FnOnce(&mut Self) -> Flow) -> Flow {
        let before = self.state.clone();
        let flow = run(self);
        let after = std::mem::replace(&mut self.state, before);
        self.state.links = after.links;
        self.state.made = after.made;
        self.state.written = after.written;
        self.state.commands = after.commands;
        flow
    }

    /// Runs `a && b` or `a || b`.
    fn list(&mut self, node: Node<'_>, source: &str) -> Flow {
        let parts = children(node);
        let [left, right] = parts.as_slice() else { return self.statements(node, source) };
        let either = (0..node.child_count())
            .filter_map(|at| node.child(at))
            .any(|child| child.kind() == "||");
        let first = self.statement(*left, source, Flow::Nothing);
        if !either {
            let then = self.statement(*right, source, Flow::Nothing);
            return match (first, then) {
                (Flow::Known(first), Flow::Known(then)) => Flow::Known(first + &then),
                (Flow::Nothing, then) => then,
                (first, Flow::Nothing) => first,
                _ => Flow::Unknown,
            };
        }
        let before = self.state.clone();
        self.statement(*right, source, Flow::Nothing);
        if !matches!(
            text_of(*right, source).split_whitespace().next(),
            Some("exit" | "return" | "break" | "continue")
        ) {
            self.state.join(&before);
        } else {
            let commands = self.state.commands;
            self.state = before;
            self.state.commands = commands;
        }
        Flow::Unknown
    }

    /// Runs branches, each of which may be taken or not.
    fn branches(&mut self, node: Node<'_>, source: &str) -> Flow {
        for child in children(node) {
            match child.kind() {
                "elif_clause" | "else_clause" | "case_item" => {
                    let before = self.state.clone();
                    self.statement(child, source, Flow::Nothing);
                    self.state.join(&before);
                }
                kind if is_word(kind) => {
                    self.word(child, source);
                }
                _ => {
                    let before = self.state.clone();
                    self.statement(child, source, Flow::Nothing);
                    self.state.join(&before);
                }
            }
        }
        Flow::Unknown
    }

    fn for_loop(&mut self, node: Node<'_>, source: &str) -> Flow {
        let parts = children(node);
        let name = parts.first().map_or("", |name| text_of(*name, source)).to_owned();
        let (body, values): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .skip(1)
            .partition(|part| matches!(part.kind(), "do_group" | "compound_statement"));
        let mut words: Vec<Word> = Vec::new();
        let names_none = values.is_empty();
        for value in values {
            words.extend(self.words(value, source));
        }
        let says_in = (0..node.child_count())
            .filter_map(|at| node.child(at))
            .any(|child| child.kind() == "in");
        if names_none && !says_in {
            // `for x; do` iterates over the arguments.
            words.clone_from(&self.state.arguments);
            if words.is_empty() {
                words.push(Word::unknown());
            }
        }
        if words.len() > ROUNDS {
            words.truncate(ROUNDS);
            words.push(Word::unknown());
        }
        for word in words {
            self.set(&name, &word);
            for one in &body {
                self.statement(*one, source, Flow::Nothing);
            }
        }
        Flow::Unknown
    }

    fn define(&mut self, node: Node<'_>, source: &str) {
        let name = node.child_by_field_name("name").map(|name| text_of(name, source).to_owned());
        let body = node.child_by_field_name("body").map(|body| text_of(body, source).to_owned());
        // The redirection of `f() { … } > file` is opened at each call.
        for part in children(node).into_iter().filter(|part| part.kind() == "file_redirect") {
            self.file_redirect(part, source);
        }
        if let (Some(name), Some(body)) = (name, body) {
            self.state.functions.insert(name, body);
        }
    }

    fn assign(&mut self, node: Node<'_>, source: &str) {
        match node.kind() {
            "variable_assignment" => {}
            "variable_assignments" => {
                return children(node).into_iter().for_each(|part| self.assign(part, source));
            }
            _ => return,
        }
        let Some(name) = node.child_by_field_name("name") else { return };
        if name.kind() == "subscript" {
            self.look_inside(name, source);
        }
        let name = text_of(name, source).to_owned();
        let value = node.child_by_field_name("value");
        let adds =
            text_of(node, source)[name.len().min(node.byte_range().len())..].starts_with("+=");
        let word = match value {
            None => Word::plain(""),
            Some(value) if value.kind() == "array" => {
                self.array(&name, value, source, adds);
                Word::unknown()
            }
            Some(value) => {
                self.state.arrays.remove(&name);
                self.word(value, source)
            }
        };
        if adds {
            self.state.variables.insert(name, None);
        } else {
            self.set(&name, &word);
        }
    }

    /// Assigns `name=(…)` or appends `name+=(…)`.
    fn array(&mut self, name: &str, value: Node<'_>, source: &str, adds: bool) {
        let mut all = Vec::new();
        for part in children(value) {
            match text_of(part, source).starts_with('[') {
                // Explicit indexes are not supported.
                true => {
                    self.look_inside(part, source);
                    all.push(Word::unknown());
                }
                false => all.extend(self.words(part, source)),
            }
        }
        if !adds {
            self.state.arrays.insert(name.to_owned(), all);
        } else if let Some(own) = self.state.arrays.get_mut(name) {
            own.extend(all);
        }
    }

    /// Assigns a variable.
    pub(crate) fn set(&mut self, name: &str, word: &Word) {
        let value = word.is_known().then(|| word.text.clone());
        self.state.variables.insert(name.to_owned(), value);
    }

    fn pipeline(&mut self, parts: Vec<Node<'_>>, source: &str, input: Flow) -> Flow {
        let mut flow = input;
        for part in parts {
            flow = self.child(|judge| judge.statement(part, source, flow));
        }
        flow
    }

    fn redirected(&mut self, node: Node<'_>, source: &str, input: Flow) -> Flow {
        let mut input = input;
        let mut piped = None;
        let mut body = None;
        let mut is_kept = false;
        let mut files = Vec::new();
        for part in children(node) {
            match part.kind() {
                "file_redirect" => files.push(part),
                "herestring_redirect" => {
                    let text = children(part).first().map(|word| self.word(*word, source));
                    input = text.map_or(Flow::Unknown, |word| flow_of(&word, true));
                }
                "heredoc_redirect" => {
                    for inner in children(part) {
                        match inner.kind() {
                            "heredoc_body" => input = self.heredoc(part, inner, source),
                            "pipeline" => piped = Some(inner),
                            "file_redirect" => files.push(inner),
                            "heredoc_start" | "heredoc_end" => {}
                            _ => {
                                self.statement(inner, source, Flow::Nothing);
                            }
                        }
                    }
                }
                _ => body = Some(part),
            }
        }
        // In `a && b > file` the redirection belongs to `b`.
        if let Some(list) = body.filter(|body| body.kind() == "list")
            && let [left, right] = children(list).as_slice()
        {
            self.statement(*left, source, Flow::Nothing);
            body = Some(*right);
        }
        // The shell opens files before it runs the command, in its current folder.
        let mut outputs = Vec::new();
        for file in files {
            if let Some(flow) = self.read_back(file, source) {
                input = flow;
            }
            if self.file_redirect(file, source) {
                is_kept = true;
                let to = file.child_by_field_name("destination");
                outputs.extend(to.map(|to| self.word(to, source)));
            }
        }
        if is_kept && body.is_some_and(|body| never_ends(text_of(body, source))) {
            self.fills_the_disk();
        }
        let flow = match body {
            Some(body) => self.statement(body, source, input),
            None => Flow::Nothing,
        };
        outputs.iter().for_each(|to| self.writes(to, &flow));
        match piped {
            Some(piped) => self.pipeline(children(piped), source, flow),
            None if is_kept => Flow::Nothing,
            None => flow,
        }
    }

    fn heredoc(&mut self, redirect: Node<'_>, body: Node<'_>, source: &str) -> Flow {
        let start = children(redirect).into_iter().find(|part| part.kind() == "heredoc_start");
        let is_raw = start.is_some_and(|start| text_of(start, source).contains(['\'', '"', '\\']));
        match is_raw {
            true => Flow::Known(text_of(body, source).to_owned()),
            false => flow_of(&self.word(body, source), false),
        }
    }

    /// Returns what `< file` reads, if the script has written it.
    fn read_back(&mut self, node: Node<'_>, source: &str) -> Option<Flow> {
        let reads = (0..node.child_count())
            .filter_map(|at| node.child(at))
            .any(|child| child.kind() == "<");
        let from = node.child_by_field_name("destination").filter(|_| reads)?;
        let file = self.word(from, source);
        self.written(&file)
    }

    /// Judges a redirection; `true` if it redirects standard output.
    fn file_redirect(&mut self, node: Node<'_>, source: &str) -> bool {
        let operator = (0..node.child_count())
            .filter_map(|at| node.child(at))
            .find(|child| !child.is_named())
            .map_or("", |child| text_of(child, source));
        let descriptor = node.child_by_field_name("descriptor").map(|it| text_of(it, source));
        let Some(destination) = node.child_by_field_name("destination") else { return false };
        let word = self.word(destination, source);
        let copies =
            operator.ends_with('&') && word.text.chars().all(|c| c.is_ascii_digit() || c == '-');
        if copies {
            return false;
        }
        if let Some(host) =
            word.text.strip_prefix("/dev/tcp/").or_else(|| word.text.strip_prefix("/dev/udp/"))
        {
            let host = host.to_owned();
            self.raw_connection(&host);
            return true;
        }
        match operator.starts_with('<') && text_of(node, source).find("<>").is_none() {
            true => self.read(&word),
            false => self.change(&word, Change::Write),
        }
        operator.starts_with('>') && matches!(descriptor, None | Some("1"))
            || operator.starts_with('&')
    }

    fn command(&mut self, node: Node<'_>, source: &str, input: Flow) -> Flow {
        let mut words = Vec::new();
        let mut input = input;
        let mut assigned = Vec::new();
        for part in children(node) {
            match part.kind() {
                "variable_assignment" => assigned.push(part),
                "herestring_redirect" => {
                    let text = children(part).first().map(|word| self.word(*word, source));
                    input = text.map_or(Flow::Unknown, |word| flow_of(&word, true));
                }
                "file_redirect" => {
                    if let Some(flow) = self.read_back(part, source) {
                        input = flow;
                    }
                    self.file_redirect(part, source);
                }
                "command_name" => {
                    let inner = children(part);
                    match inner.first() {
                        Some(name) => words.extend(self.words(*name, source)),
                        None => words.push(Word::plain(text_of(part, source))),
                    }
                }
                _ => words.extend(self.words(part, source)),
            }
        }
        // `X=1 command` sets X only for the command.
        let before = (!words.is_empty()).then(|| self.state.variables.clone());
        for part in assigned {
            self.assign(part, source);
            if let Some(name) = part.child_by_field_name("name") {
                let (name, value) =
                    (text_of(name, source).to_owned(), part.child_by_field_name("value"));
                let value = value.map_or_else(|| Word::plain(""), |value| self.word(value, source));
                self.loader_variable(&name, &value);
            }
        }
        if input == Flow::Nothing {
            input = self.state.input.clone();
        }
        let flow = self.run(words, input);
        if let Some(before) = before {
            let after = std::mem::replace(&mut self.state.variables, before);
            // `read` and `export` set variables permanently.
            for (name, value) in after {
                self.state.variables.entry(name).or_insert(value);
            }
        }
        flow
    }

    /// Records what a command writes to a file.
    pub(crate) fn writes(&mut self, to: &Word, what: &Flow) {
        const MOST: usize = 64;
        let paths = if to.is_known() { self.paths(&to.text) } else { None };
        for path in paths.into_iter().flatten() {
            if self.state.written.len() < MOST {
                self.state.written.push((path, what.clone()));
            }
        }
    }

    /// Returns what the script itself has written to a file.
    pub(crate) fn written(&self, file: &Word) -> Option<Flow> {
        let paths = if file.is_known() { self.paths(&file.text)? } else { return None };
        let last = self.state.written.iter().rev();
        last.into_iter().find(|(path, _)| paths.contains(path)).map(|(_, flow)| flow.clone())
    }

    /// Records folders that a command creates.
    pub(crate) fn makes(&mut self, word: &Word) {
        if let (true, Some(folders)) = (word.is_known(), &self.state.folders) {
            let made: Vec<_> = folders.iter().map(|own| lexical(&own.join(&word.text))).collect();
            self.state.made.extend(made);
        }
    }
}

/// Whether the output of a command never ends.
fn never_ends(command: &str) -> bool {
    let mut words = command.split_whitespace();
    match words.next() {
        Some("yes") => true,
        Some("cat") => {
            words.any(|word| matches!(word, "/dev/zero" | "/dev/urandom" | "/dev/random"))
        }
        _ => false,
    }
}

/// Returns the input that a text provides to a command.
fn flow_of(word: &Word, line: bool) -> Flow {
    match word.is_known() {
        true => Flow::Known(if line { format!("{}\n", word.text) } else { word.text.clone() }),
        false => Flow::Unknown,
    }
}

fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "concatenation"
            | "simple_expansion"
            | "expansion"
            | "number"
            | "extglob_pattern"
            | "translated_string"
            | "regex"
    )
}
